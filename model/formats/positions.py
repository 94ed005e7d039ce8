"""Tables of positions that public models compute and we store."""

import math

import torch
from torch import Tensor


def sines_then_cosines(first: int, count: int, d_model: int) -> Tensor:
    """Return the table `[count, d_model]` of the positions from `first` on, with the longest wave in the last place.

    An odd width has a zero at the end.
    """
    half = d_model // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float64) * -(math.log(10000) / (half - 1)))
    angles = torch.arange(first, first + count, dtype=torch.float64)[:, None] * rates
    encodings = torch.cat([angles.sin(), angles.cos()], dim=1).float()
    return torch.nn.functional.pad(encodings, (0, d_model - 2 * half))
