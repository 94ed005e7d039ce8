"""Triton kernels for a GPU: what PyTorch's operators read several times, or have to copy first, is read once.

PyTorch's attention wants the keys and values of a batch side by side: each step would copy them out of their slots, as
many positions of each row as the longest has. `attend` follows a row's slots, and reads no more than the row has.
`peak` searches logits and sums their exponentials in one pass; PyTorch's operators pass over them six times. The order
of the sums depends on nothing but the row's own length.

Triton comes with PyTorch's builds for CUDA. The module can be imported only where it is; `model.kernels` asks for it.
With TRITON_INTERPRET=1, set before the import, the kernels run on a CPU, slowly: that is how they are tested.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

IS_INTERPRETED = bool(triton.knobs.runtime.interpret)
_POSITIONS = 64
"""Positions that a program reads at a time."""
_LOGITS = 4096
"""Logits that a program reads at a time."""


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
    has_origins = origins is not None
    table = slots if origins is None else origins
    assert keys.stride() == values.stride()
    assert keys.stride(-1) == slots.stride(0) == lengths.stride(0) == table.stride(-1) == 1
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


@triton.jit  # type: ignore[untyped-decorator]
def _peak(  # type: ignore[no-untyped-def]  # noqa: PLR0913  as those of `_attend`
    logits,
    tokens,
    values,
    logprobs,
    row_stride,
    size,
    LOGITS: tl.constexpr,
):
    """One program for each row: the largest logit, and the sum of exponentials, which is scaled whenever it grows."""
    row = tl.program_id(0).to(tl.int64)
    best, total = -float("inf"), 0.0
    token = tl.zeros([], dtype=tl.int64)
    for first in range(0, size, LOGITS):
        columns = first + tl.arange(0, LOGITS)
        seen = tl.load(logits + row * row_stride + columns, mask=columns < size, other=-float("inf"))
        numbers = tl.where(seen == seen, seen, -float("inf"))  # without NaN, whose order is not defined
        highest, place = tl.max(numbers, axis=0, return_indices=True)
        # Of equal logits the first counts.
        token = tl.where(highest > best, first + place, token)
        now_best = tl.maximum(best, highest)
        # The exponentials of a block of nothing but -inf are 0, not NaN; that of a NaN is NaN.
        shift = tl.where(now_best == -float("inf"), 0.0, now_best)
        total = total * tl.exp(best - shift) + tl.sum(tl.exp(seen - shift), axis=0)
        best = now_best
    tl.store(tokens + row, token)
    tl.store(values + row, best)
    has_numbers = best > -float("inf")
    logprob = 0.0 - tl.log(tl.where(has_numbers, total, 1.0))  # not the negative: that of 0.0 would be -0.0
    tl.store(logprobs + row, tl.where(has_numbers, logprob, float("nan")))


def peak(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the most probable token of each row of `logits [rows, vocab]`, in float32, its logit and log-probability.

    The log-probability of a row with a NaN, or with nothing but -inf, is NaN, and its token any.
    """
    assert logits.dtype == torch.float32
    assert logits.stride(-1) == 1
    rows, size = logits.shape
    tokens = torch.empty(rows, dtype=torch.int64, device=logits.device)
    values, logprobs = (torch.empty(rows, device=logits.device) for _ in range(2))
    _peak[(rows,)](logits, tokens, values, logprobs, logits.stride(0), size, LOGITS=_LOGITS, num_warps=8)
    return tokens, values, logprobs
