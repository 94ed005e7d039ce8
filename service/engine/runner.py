"""Execution of a step on a model: the only place in the engine that calls it. Knows nothing of requests."""

from typing import Protocol

import torch

from model.cache import SlotCache
from model.sampling import greedy
from model.transformer import Transformer
from service.engine.batching import SourceBatch, StepBatch, StepScores


class Runner(Protocol):
    """How a step is executed; chosen once, by mode."""

    def prefill(self, sources: SourceBatch) -> None:
        """Encode the sources once and keep their K/V in their slots."""
        ...

    def decode(self, batch: StepBatch) -> StepScores:
        """Copy what is to be copied, then run the decoder for every row."""
        ...


class EagerRunner:
    """Plain PyTorch, operator by operator."""

    def __init__(self, model: Transformer, *, slots: int, max_length: int) -> None:
        self._model = model
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

    @torch.inference_mode()
    def decode(self, batch: StepBatch) -> StepScores:
        self._cache.copy_target(batch.copies)
        slots, positions = batch.slots[:, None], batch.positions[:, None]
        logits = self._model.decode(
            batch.tokens[:, None],
            positions,
            None,
            self._cache.source(batch.source_slots[:, None], batch.source_lengths[:, None]),
            None,
            self._cache.rows(slots, positions),
        )
        logits = logits[:, -1].float()
        best = greedy(logits)
        return StepScores(best.tokens, best.logprobs, logits[batch.logit_rows])
