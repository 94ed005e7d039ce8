"""Execution of a step on a model: the only place in the engine that calls it. Knows nothing of requests."""

from typing import Protocol

import torch
from torch import Tensor

from model.attention import attention_weights, padding_mask
from model.cache import KV, Memory, SlotCache, SlotKV, SlotRows
from model.sampling import greedy
from model.transformer import Transformer
from service.engine.batching import SourceBatch, StepBatch, StepScores, extensions_of


class DeviceLost(Exception):
    """The device computes nothing more for this process: only another process can go on."""


class Runner(Protocol):
    """How a step is executed; chosen once, by mode. Whatever it raises fails a step, but for `DeviceLost`."""

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
        slots, positions = batch.queries.slots[:, None], batch.queries.positions[:, None]
        *sources, last = self._cache.source(batch.queries.source_slots[:, None], batch.queries.source_lengths[:, None])
        looked_at = _LookedAt(last, batch.outputs.alignment)
        memories: list[Memory] = [*sources, looked_at if batch.outputs.alignment else last]
        rows = _LookedAtRows(self._cache.rows(slots, positions), batch.outputs.self_attention)
        logits = self._model.decode(batch.queries.tokens[:, None], positions, None, memories, None, rows)[:, -1].float()
        best = greedy(logits)
        chosen, extensions = logits[batch.outputs.logits], extensions_of(batch, logits[batch.beam_rows])
        return StepScores(best.tokens[None], best.logprobs[None], chosen, looked_at.weights, rows.weights(), extensions)


class _LookedAtRows:
    """Rows of the cache, some of which remember what they look at in each layer."""

    def __init__(self, rows: SlotRows, looking: list[int]) -> None:
        self._rows = rows
        self._looking = looking
        self._layers: list[_LookedAt] = []

    def update(self, layer: int, new: KV) -> Memory:
        memory = self._rows.update(layer, new)
        if not self._looking:
            return memory
        self._layers.append(_LookedAt(memory, self._looking))
        return self._layers[-1]

    def weights(self) -> Tensor | None:
        """`[rows, layers, longest]`, or None if no row looks."""
        weights = [layer.weights for layer in self._layers if layer.weights is not None]
        return torch.stack(weights, dim=1) if weights else None


class _LookedAt:
    """K/V that remember what some of the queries look at: the mean of the heads.

    Of the sources, only the last decoder layer's: in the embedded model it points better than the first layer, to
    words that are spelled alike in a sentence and its translation (`loadtest.alignment`).
    """

    def __init__(self, memory: SlotKV, rows: list[int]) -> None:
        self._memory = memory
        self._rows = rows
        self.weights: Tensor | None = None

    def attend(self, query: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
        memory, rows = self._memory, self._rows
        slots, lengths = memory.slots[rows, 0], memory.lengths[rows, 0]
        width = int(lengths.max())
        keys = memory.keys[slots, :, :width]
        hidden = padding_mask(lengths, width, query.dtype)
        self.weights = attention_weights(query[rows], keys, hidden).mean(dim=1)[:, 0].float()
        return memory.attend(query, mask, dropout)
