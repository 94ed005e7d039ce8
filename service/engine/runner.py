"""Execution of a step on a model: the only place in the engine that calls it. Knows nothing of requests."""

import math
from typing import Protocol

import torch
from torch import Tensor

from model.cpp_transformer import KV_DTYPE, CppTransformer
from model.decode_step import with_samples
from model.sampling import greedy
from model.shortlist import ALL_WORDS, Shortlist
from model.slot_cache import SlotCache
from model.slot_decoder import Width, decode, encode
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
        encode(self._model, self._cache, sources.ids, sources.positions, sources.lengths, sources.slots)
        if self._shortlist is not None:
            vocab_size = self._allowed.shape[1]
            allowed = self._shortlist.allowed(sources.ids[0], sources.lengths, sources.required, vocab_size)
            self._allowed[sources.slots] = allowed

    @torch.inference_mode()
    def decode(self, batch: StepBatch) -> StepScores:
        self._cache.copy_target(batch.copies)
        queries, outputs = batch.queries, batch.outputs
        alignment: list[Tensor] = []
        layers: list[Tensor] = []
        logits = decode(
            self._model,
            self._cache,
            queries,
            Width(int(queries.source_lengths.max()), int(queries.positions.max()) + 1),
            alignment.append if outputs.alignment else None,
            (lambda _, weights: layers.append(weights[outputs.self_attention])) if outputs.self_attention else None,
        ).float()
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
            alignment[0][outputs.alignment] if alignment else None,
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
