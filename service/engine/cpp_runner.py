"""Execution of a plan in C++ and int8: `model.cpp_transformer` with the Runner protocol."""

import torch

from model.cpp_transformer import KV_DTYPE, CppTransformer
from model.shortlist import ALL_WORDS, Shortlist
from model.slot_cache import SlotCache
from model.transformer import Transformer
from service.engine.batching import SourceBatch, StepBatch, StepScores


class CppRunner:
    """A whole encoder batch, or a whole block of decode steps, in one call."""

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
