"""The sources that are encoded, and the rows of a decode step, as the C interface takes them."""

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from model.kernels.library import Batch, call, numbers, pointer
from model.topk import Beams

if TYPE_CHECKING:
    from model.decode_step import Outputs, PlainRows, Queries

_COLUMNS: Final = tuple(f"int8: {name}" for name in "tokens positions slots source_slots source_lengths".split())


def batch_of(
    queries: "Queries", outputs: "Outputs", beams: Beams, plain: "PlainRows", block: tuple[int, int, float]
) -> tuple[Batch, list[Any]]:
    """Return the batch, and lists that it points into, as into the tensors; raises RuntimeError for other tensors.

    `block` is the number of steps, the id of a hypothesis's end, and the seconds.
    """
    rows, plain_rows, beam_count = queries.tokens.numel(), plain.rooms.numel(), beams.rows.shape[0]
    sampled = plain_rows if plain.temperatures.numel() else 0
    lists = [numbers(each) for each in outputs]
    batch = Batch(
        rows,
        *(pointer(each, torch.int64, rows, name) for each, name in zip(queries, _COLUMNS, strict=True)),
        *map(len, outputs),
        *(ctypes.addressof(each) if each else None for each in lists),
        beam_count,
        pointer(beams.rows, torch.int64, 3 * beam_count, "int8: beams"),
        pointer(beams.totals, torch.float32, rows if beam_count else 0, "int8: totals"),
        plain_rows,
        sampled,
        pointer(plain.rooms, torch.int64, plain_rows, "int8: rooms"),
        pointer(plain.temperatures, torch.float32, sampled, "int8: temperatures"),
        pointer(plain.top_ks, torch.int64, sampled, "int8: top_ks"),
        pointer(plain.top_ps, torch.float32, sampled, "int8: top_ps"),
        pointer(plain.seeds, torch.int64, sampled, "int8: seeds"),
        *block,
    )
    return batch, lists


def encode(
    transformer: int, ids: Tensor, positions: Tensor, offsets: Tensor, slots: Sequence[int], allowed: Tensor
) -> None:
    """Encode sources as `CppTransformer.encode` describes them; raises RuntimeError for others."""
    tokens, sources, words = ids.numel(), len(slots), allowed.numel()
    call(
        "transformer_encode",
        transformer,
        pointer(ids, torch.int64, tokens, "int8: ids"),
        pointer(positions, torch.int64, tokens, "int8: positions"),
        tokens,
        pointer(offsets, torch.int64, sources + 1, "int8: offsets"),
        numbers(slots),
        sources,
        pointer(allowed, torch.bool, words, "int8: words"),
        words,
        torch.get_num_threads(),
    )
