"""Attention on a GPU that reads keys and values where they are, as a Triton kernel.

PyTorch's attention wants the keys and values of a batch side by side: each step would copy them out of their slots, as
many positions of each row as the longest has. This kernel follows a row's slots, and reads no more than the row has.
The order of its sums depends on nothing but the row's own length.

Triton comes with PyTorch's builds for CUDA. The module can be imported only where it is; `model.kernels` asks for it.
With TRITON_INTERPRET=1, set before the import, the kernel runs on a CPU, slowly: that is how it is tested.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

_POSITIONS = 64
"""Positions that a program reads at a time."""


@triton.jit  # type: ignore[untyped-decorator]
def _attend(  # type: ignore[no-untyped-def]  # noqa: PLR0913  Triton compiles it: its arguments are addresses, numbers and constants
    query,
    keys,
    values,
    slots,
    lengths,
    origins,
    mixed,
    scale,
    row_stride,
    query_head_stride,
    slot_stride,
    head_stride,
    position_stride,
    origins_stride,
    HEAD_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    POSITIONS: tl.constexpr,
    HAS_ORIGINS: tl.constexpr,
):
    """One program for each row and head: softmax and weighted sum in one pass (Milakov and Gimelshein 2018)."""
    row, head = tl.program_id(0), tl.program_id(1)
    columns = tl.arange(0, COLUMNS)
    is_column = columns < HEAD_DIM
    own = row * row_stride + head * query_head_stride + columns
    looking = tl.load(query + own, mask=is_column, other=0.0).to(tl.float32) * scale
    slot, length = tl.load(slots + row), tl.load(lengths + row)
    highest, total = -float("inf"), 0.0
    sums = tl.zeros([COLUMNS], dtype=tl.float32)
    for first in range(0, length, POSITIONS):
        positions = first + tl.arange(0, POSITIONS)
        is_seen = positions < length
        places = positions * position_stride + head * head_stride
        if HAS_ORIGINS:
            origin = tl.load(origins + slot * origins_stride + positions, mask=is_seen, other=0)
            places += origin.to(tl.int64) * slot_stride
        else:
            places += slot * slot_stride
        block = places[:, None] + columns[None, :]
        is_there = is_seen[:, None] & is_column[None, :]
        seen = tl.load(keys + block, mask=is_there, other=0.0).to(tl.float32)
        scores = tl.where(is_seen, tl.sum(seen * looking[None, :], axis=1), -float("inf"))
        now_highest = tl.maximum(highest, tl.max(scores, axis=0))
        weights, fading = tl.exp(scores - now_highest), tl.exp(highest - now_highest)
        value = tl.load(values + block, mask=is_there, other=0.0).to(tl.float32)
        sums = sums * fading + tl.sum(weights[:, None] * value, axis=0)
        total = total * fading + tl.sum(weights, axis=0)
        highest = now_highest
    tl.store(mixed + own, (sums / total).to(mixed.dtype.element_ty), mask=is_column)


def attend(
    query: Tensor, keys: Tensor, values: Tensor, slots: Tensor, lengths: Tensor, origins: Tensor | None = None
) -> Tensor:
    """Attention of one query a row over the first `lengths` positions of its slot; see `model.kernels.attend_slots`.

    With `origins [slots, positions]`, in int32, position p of slot s is in slot `origins[s, p]`. No shape depends on a
    tensor's value.
    """
    query = query.contiguous()
    rows, heads, head_dim = query.shape
    mixed = torch.empty_like(query)
    assert keys.stride() == values.stride()
    assert keys.stride(-1) == 1
    has_origins = origins is not None
    table = slots if origins is None else origins
    _attend[(rows, heads)](
        query,
        keys,
        values,
        slots,
        lengths,
        table,
        mixed,
        1 / math.sqrt(head_dim),
        *query.stride()[:2],
        *keys.stride()[:3],
        table.stride(0),
        HEAD_DIM=head_dim,
        COLUMNS=triton.next_power_of_2(head_dim),
        POSITIONS=_POSITIONS,
        HAS_ORIGINS=has_origins,
    )
    return mixed
