"""Execution of a plan on a model: the only place in the engine that calls it."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from model.cache import SlotCache
from model.transformer import Transformer
from service.engine.batching import source_batch, step_batch
from service.engine.scheduler import Running


class Runner(Protocol):
    """How a step is executed; chosen once, by mode."""

    def prefill(self, admitted: Sequence[Running]) -> None:
        """Encode the sources once and keep their K/V in the requests' slots."""
        ...

    def decode(self, running: Sequence[Running]) -> Tensor:
        """Next-token logits `[rows, vocab]` in float32, in the order given."""
        ...


class EagerRunner:
    """Plain PyTorch, operator by operator."""

    def __init__(self, model: Transformer, *, slots: int, max_length: int) -> None:
        self._model = model
        self._config = model.config
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
    def prefill(self, admitted: Sequence[Running]) -> None:
        if not admitted:
            return
        batch = source_batch(admitted)
        source = self._model.encode_packed(batch.ids, batch.positions, batch.offsets)
        self._cache.write_source(batch.slots, batch.lengths, source)

    @torch.inference_mode()
    def decode(self, running: Sequence[Running]) -> Tensor:
        batch = step_batch(running, self._config.bos_id)
        logits = self._model.decode(
            batch.tokens,
            batch.positions,
            None,
            self._cache.source(batch.slots, batch.source_lengths),
            None,
            self._cache.rows(batch.slots, batch.positions),
        )
        return logits[:, -1].float()
