"""The best of many scores, with a rule for equal ones."""

from torch import Tensor


def largest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row of `scores [rows, columns]` and their columns, in descending order.

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
