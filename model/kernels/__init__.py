"""Attention over rows of different length without padding: C++ operators, or PyTorch where they cannot be built.

The operators are compiled at first use into the user's cache, or beforehand next to their source by
`python -m model.kernels`. Where there is no compiler, `attend_slots` and `attend_packed` are PyTorch functions with the
same result but for rounding, which pad and need finite numbers in all of the arena. `load` says which it is. For
inference: there are no gradients. With the operators comes `torch.classes.dragoman.Int8Transformer` (model/fused.py).
"""

import functools
import logging
from pathlib import Path

import platformdirs
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from model.kernels.compiler import build, file_name

logger = logging.getLogger(__name__)


@functools.cache
def load() -> bool:
    """Whether the operators are there, after building them if need be; once a process."""
    try:
        built = Path(__file__).with_name(file_name())
        if not built.exists():
            built = build(platformdirs.user_cache_path("dragoman"))
        torch.ops.load_library(built)  # type: ignore[no-untyped-call]
    except OSError as error:
        logger.warning("no C++ operators, attention is padded: %s", error.__cause__ or error)
        return False
    logger.info("C++ operators for %s: %s", torch.ops.dragoman.variants()[0], built)
    return True


def attend_slots(query: Tensor, keys: Tensor, values: Tensor, slots: Tensor, lengths: Tensor) -> Tensor:
    """Attention of one query a row over the first `lengths` positions of its slot.

    `query [rows, heads, head_dim]`; `keys`, `values [slots, heads, positions, head_dim]`; `slots [rows]` and
    `lengths [rows]` in int64, each length at least 1. Returns the shape of `query`.
    """
    if _fits(query) and load():
        attended: Tensor = torch.ops.dragoman.attend_slots(query.contiguous(), keys, values, slots, lengths)
        return attended
    width = int(lengths.max())
    mask = _padding(lengths, width, query.dtype)
    # While the queue is full there are no holes among the slots: then nothing is copied.
    dense = torch.equal(slots, torch.arange(len(slots), device=slots.device))
    chosen = slice(0, len(slots)) if dense else slots
    rows = F.scaled_dot_product_attention(
        query[:, :, None], keys[chosen, :, :width], values[chosen, :, :width], attn_mask=mask
    )
    return rows[:, :, 0]


def attend_packed(query: Tensor, keys: Tensor, values: Tensor, offsets: Tensor) -> Tensor:
    """Attention within sequences that stand one behind the other, each query over all of its own sequence.

    `query`, `keys`, `values [tokens, heads, head_dim]`; sequence s is tokens `offsets[s]` to `offsets[s + 1]`.
    """
    if _fits(query) and load():
        packed = (query.contiguous(), keys.contiguous(), values.contiguous())
        attended: Tensor = torch.ops.dragoman.attend_packed(*packed, offsets)
        return attended
    lengths = offsets.diff()
    padded = [
        pad_sequence(list(torch.split(tensor, lengths.tolist())), batch_first=True).transpose(1, 2)
        for tensor in (query, keys, values)
    ]
    mask = _padding(lengths, padded[0].shape[2], query.dtype)
    rows = F.scaled_dot_product_attention(padded[0], padded[1], padded[2], attn_mask=mask).transpose(1, 2)
    return torch.cat([row[:length] for row, length in zip(rows, lengths.tolist(), strict=True)])


def _fits(query: Tensor) -> bool:
    """Whether it is what the operators are written for."""
    return query.device.type == "cpu" and query.dtype == torch.float32


def _padding(lengths: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    hidden = torch.arange(width, device=lengths.device) >= lengths[:, None]
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, -torch.inf)[:, None, None]
