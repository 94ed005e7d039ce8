"""Execution of a step on a model: the only place in the engine that calls it. Knows nothing of requests."""

import math
from typing import Protocol

import torch
from torch import Tensor

from model.cache import KeyValueView
from model.cpp_transformer import KV_DTYPE, CppTransformer
from model.decode_step import with_samples
from model.inspection import InspectedCache, InspectedKV
from model.sampling import greedy
from model.shortlist import ALL_WORDS, Shortlist
from model.slot_cache import SlotCache
from model.transformer import Transformer
from service.engine.batching import SourceBatch, StepBatch, StepScores, extensions_of


class DeviceLost(Exception):
    """The device has failed for this process: only another process can continue."""


class Runner(Protocol):
    """The execution of steps; chosen once, by mode. Whatever it raises fails a step, except `DeviceLost`."""

    def prefill(self, sources: SourceBatch) -> None:
        """Encode the sources once and keep their K/V in their slots."""
        ...

    def decode(self, batch: StepBatch) -> StepScores:
        """Copy K/V between slots, then run the decoder for every row: one step, or as many as the block may have."""
        ...


class EagerRunner:
    """Plain PyTorch, operator by operator, one step at a time: a step takes longer than a block would save."""

    def __init__(self, model: Transformer, *, slots: int, max_length: int, shortlist: Shortlist | None = None) -> None:
        self._model = model
        self._shortlist = shortlist
        self._allowed = (
            torch.ones(slots, model.config.vocab_size, dtype=torch.bool) if shortlist is not None else ALL_WORDS
        )
        weight = model.embedding.weight
        self._cache = SlotCache(
            model.config,
            slots=slots,
            max_source_length=max_length,
            max_target_length=max_length,
            dtype=weight.dtype,
            device=weight.device,
        )

    @torch.inference_mode()
    def prefill(self, sources: SourceBatch) -> None:
        source = self._model.encode_packed(sources.ids, sources.positions, sources.offsets)
        self._cache.write_source(sources.slots, sources.lengths, source)
        if self._shortlist is not None:
            vocab_size = self._allowed.shape[1]
            allowed = self._shortlist.allowed(sources.ids[0], sources.lengths, sources.required, vocab_size)
            self._allowed[sources.slots] = allowed

    @torch.inference_mode()
    def decode(self, batch: StepBatch) -> StepScores:
        self._cache.copy_target(batch.copies)
        queries, outputs = batch.queries, batch.outputs
        positions = queries.positions[:, None]
        alignment: list[Tensor] = []
        *sources, last = self._cache.source(queries.source_slots[:, None], queries.source_lengths[:, None])
        last_view: KeyValueView = last
        if outputs.alignment:
            # The last layer's: in the embedded model it points better than the first layer, to words that are spelled
            # alike in a sentence and its translation.
            last_view = InspectedKV(last, alignment.append, outputs.alignment)
        rows = self._cache.rows(queries.slots[:, None], positions)
        layers: list[Tensor] = []
        inspected = InspectedCache(rows, lambda _, weights: layers.append(weights), outputs.self_attention)
        logits = self._model.decode(
            queries.tokens[:, None],
            positions,
            None,
            [*sources, last_view],
            None,
            inspected if outputs.self_attention else rows,
        )[:, -1].float()
        if self._shortlist is not None:
            logits = logits.masked_fill(~self._allowed[queries.source_slots], -math.inf)
        best = with_samples(greedy(logits), logits, queries.positions, batch.plain)
        self_attention = None
        if outputs.self_attention:
            none = logits.new_zeros(len(outputs.self_attention), 0, 0)
            self_attention = torch.stack(layers, dim=1) if layers else none
        return StepScores(
            best.tokens[None],
            best.logprobs[None],
            logits[outputs.logits],
            alignment[0] if alignment else None,
            self_attention,
            extensions_of(batch, logits[batch.beam_rows]),
            torch.ones_like(batch.plain.rooms),
        )


class CppRunner:
    """`model.cpp_transformer`, in int8: a whole encoder batch, or a whole block of decode steps, in one call."""

    def __init__(self, model: Transformer, *, slots: int, max_length: int, shortlist: Shortlist | None = None) -> None:
        self._cache = SlotCache(
            model.config, slots=slots, max_source_length=max_length, max_target_length=max_length, dtype=KV_DTYPE
        )
        self._vocab_size = model.config.vocab_size
        self._shortlist = shortlist
        self._model = CppTransformer(model, self._cache, has_shortlist=shortlist is not None)

    @torch.inference_mode()
    def prefill(self, sources: SourceBatch) -> None:
        ids, allowed = sources.ids[0], ALL_WORDS
        if self._shortlist is not None:
            allowed = self._shortlist.allowed(ids, sources.lengths, sources.required, self._vocab_size)
        self._model.encode(ids, sources.positions[0], sources.offsets, sources.slots, allowed)

    @torch.inference_mode()
    def decode(self, batch: StepBatch) -> StepScores:
        self._cache.copy_target(batch.copies)
        scores = self._model.decode(batch.queries, batch.outputs, batch.beams, batch.plain, *batch.block)
        alignment = scores.alignment if batch.outputs.alignment else None
        self_attention = scores.self_attention if batch.outputs.self_attention else None
        best, extensions = scores.best, scores.extensions
        return StepScores(*best, scores.logits, alignment, self_attention, extensions, scores.counts)
