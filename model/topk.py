"""The best of many scores, with a rule for equal ones."""

from typing import Final, NamedTuple

import torch
from torch import Tensor


class Beams(NamedTuple):
    """Rows of a step that belong together."""

    rows: Tensor
    """The first row, the number of rows and the size of each beam: int64 `[beams, 3]`, in ascending order."""
    totals: Tensor
    """The sums of log-probabilities of all rows of the step: float32 `[rows]`."""


NO_BEAMS: Final = Beams(torch.empty(0, 3, dtype=torch.int64), torch.empty(0))


class Extensions(NamedTuple):
    """The best extensions of beams, `[beams, count]` each, or with leading dimensions: the best first."""

    parents: Tensor
    """Their rows, by their numbers among the beam's."""
    tokens: Tensor
    logprobs: Tensor
    totals: Tensor
    """Total and token log-probability of each row; -inf in unused places."""


def largest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` largest of each row of `scores [rows, columns]` and their columns, in descending order.

    As `topk`, except that equal ones come, and are chosen, in the order of their columns.
    """
    count = min(count, scores.shape[1])
    values, columns = scores.topk(min(count + 1, scores.shape[1]))
    if values.shape[1] > count and bool((values[:, count - 1] == values[:, count]).any()):
        values, columns = scores.sort(dim=-1, descending=True, stable=True)
        return values[:, :count], columns[:, :count]
    columns, order = columns[:, :count].sort(dim=-1)
    values, order = values.gather(-1, order).sort(dim=-1, descending=True, stable=True)
    return values, columns.gather(-1, order)
