"""The encoder and the decoder over slots of a `SlotCache`, in PyTorch."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from model.attention import look_ahead_mask, padding_mask, segment_mask
from model.decode_step import Queries
from model.inspection import InspectedCache, InspectedKV
from model.slot_cache import SlotCache
from model.transformer import Transformer


def encode(
    model: Transformer, cache: SlotCache, ids: Tensor, positions: Tensor, lengths: Sequence[int], slots: Sequence[int]
) -> None:
    """Encode sources that stand one after the other into their slots; `ids` and `positions` are `[1, tokens]`."""
    sizes, places = torch.tensor([lengths, slots])
    if model.config.positions == "relative":
        padded = pad_sequence(list(torch.split(ids[0], list(lengths))), batch_first=True)
        cache.write_padded_source(places, model.encode(padded, padding_mask(sizes, padded.shape[1])))
        return
    numbers = torch.arange(len(sizes)).repeat_interleave(sizes)
    encoded = model.encode_segments(ids, positions, segment_mask(numbers[None], numbers[None]))
    cache.write_source_tokens(places[numbers], positions[0], encoded)


class Width(NamedTuple):
    """The number of positions that all rows of a step attend to; masks hide what a row does not have."""

    source: int
    target: int


def decode(
    model: Transformer,
    cache: SlotCache,
    queries: Queries,
    width: Width,
    on_alignment: Callable[[Tensor], object] | None = None,
    on_self_attention: Callable[[int, Tensor], object] | None = None,
) -> Tensor:
    """Run the decoder for rows of the cache; return the logits `[rows, vocab]`. No shape depends on a tensor's value.

    `on_alignment` gets the last layer's cross-attention weights, which in the embedded model point better than the
    first layer's to words that are spelled alike on both sides; `on_self_attention` each layer's number and weights.
    """
    tokens, positions, slots, source_slots, source_lengths = queries
    dtype = model.embedding.weight.dtype
    *sources, last = cache.source(source_slots, width.source)
    rows = cache.rows(slots, positions, width.target)
    logits = model.decode(
        tokens[:, None],
        positions[:, None],
        look_ahead_mask(positions[:, None], width.target, dtype),
        [*sources, last if on_alignment is None else InspectedKV(last, on_alignment)],
        padding_mask(source_lengths, width.source, dtype),
        rows if on_self_attention is None else InspectedCache(rows, on_self_attention),
    )
    return logits[:, 0]
