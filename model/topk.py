"""The best of many scores, with a rule for equal ones."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence


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


NO_EXTENSIONS: Final = Extensions(*torch.empty(2, 0, 0, 0, dtype=torch.int64), *torch.empty(2, 0, 0, 0))


def largest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` largest of each row of float32 `scores [rows, columns]` and their columns, in descending
    order.

    As `topk`, except that equal ones come, and are chosen, in the order of their columns. Reads no tensor's value, so
    that the CPU does not wait for the device.
    """
    rows, columns = scores.shape
    count = min(count, columns)
    filling = -columns % _PART
    parts = F.pad(scores, (0, filling), value=-torch.inf).view(rows, -1, _PART)
    numbers = torch.arange(columns + filling, device=scores.device).view(-1, _PART)
    # The top `count` lie in the `count` parts with the largest maxima.
    _, chosen = _first(parts.amax(dim=-1), numbers[:, 0].expand(rows, -1), min(count, len(numbers)))
    chosen //= _PART
    candidates = parts.gather(1, chosen[:, :, None].expand(-1, -1, _PART)).flatten(1)
    return _first(candidates, numbers[chosen].flatten(1), count)


_PART: Final = 128


def _first(scores: Tensor, columns: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` largest of each row and their columns, of equal ones those with the lowest columns."""
    # Numbers in the order of the scores, whose bits are in that order, the negative ones' reversed; -0.0 becomes 0.0.
    bits = (scores + 0.0).view(torch.int32).long()
    bits = torch.where(scores.isnan(), 0x7FFFFFFF, bits)  # NaN comes first, whatever its sign: a broken row shows
    keys = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits) * 2**32 - columns
    places = keys.topk(count).indices
    return scores.gather(-1, places), columns.gather(-1, places)


def members(rows: int, sizes: Sequence[int]) -> Tensor:
    """Return the rows of each beam, int64 `[beams, largest size]`, one beam after the other; `rows` in unused places.

    Raises RuntimeError if the sizes are not those of so many rows.
    """
    own = list(torch.split(torch.arange(rows), list(sizes)))
    return pad_sequence(own, batch_first=True, padding_value=rows)


def best_extensions(logits: Tensor, highest: Tensor, totals: Tensor, beams: Tensor, count: int) -> Extensions:
    """Return the `count` best extensions of each of `beams`, which are `members` of the rows.

    `logits [rows, vocab]` stand for log-probabilities, which are added to `totals [rows]`; `highest [rows]` are the
    largest log-probabilities. Of equal sums the earlier row's come first, and of a row the more probable ones, then
    the lower tokens. Reads no tensor's value, as `largest`.
    """
    values, tokens = largest(logits, count)
    logprobs = values - values[:, :1] + highest[:, None]
    sums = F.pad(logprobs + totals[:, None], (0, 0, 0, 1), value=-torch.inf)[beams].flatten(1)
    missing = max(count - sums.shape[1], 0)
    sums, places = largest(F.pad(sums, (0, missing), value=-torch.inf), count)
    possible = sums != -torch.inf
    places = places * possible
    found = values.shape[1]
    parents = places // found
    own = beams.gather(-1, parents) * found + places % found
    return Extensions(
        parents, tokens.flatten()[own] * possible, logprobs.flatten()[own].where(possible, -torch.inf), sums
    )
