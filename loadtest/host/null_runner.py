"""A runner that computes nothing: each translation has as many tokens as its source, drawn from a table."""

from typing import Final

import torch
from torch import Tensor

from model.transformer import Transformer
from service.engine.batching import SourceBatch, StepBatch, StepScores

_FIRST_WORD: Final = 300
"""Lower ids stand for bytes and special tokens."""
_TABLE: Final = 1021
_MOST_STEPS: Final = 16


class NullRunner:
    """Serves greedy requests without constraints and inspection."""

    def __init__(self, vocab_size: int, eos_id: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self._words = torch.randint(_FIRST_WORD, vocab_size, (_TABLE,), generator=generator)
        self._logprobs = -torch.rand(_TABLE, generator=generator)
        self._eos_id = eos_id

    def prefill(self, sources: SourceBatch) -> None:
        pass

    def decode(self, batch: StepBatch) -> StepScores:
        queries = batch.queries
        left = queries.source_lengths - queries.positions
        steps = min(1 + batch.steps_ahead, _MOST_STEPS, max(int(left.min()), 1))
        positions = queries.positions + torch.arange(steps)[:, None]
        places = (positions * 37 + queries.slots * 101) % _TABLE
        tokens = torch.where(positions + 1 >= queries.source_lengths, self._eos_id, self._words[places])
        return StepScores(tokens, self._logprobs[places], _no_logits())


def _no_logits() -> Tensor:
    return torch.empty(0, 0)


def build_null_runner(model: Transformer, slots: int, max_length: int) -> NullRunner:
    """Build the runner as the table of modes does; the model's weights are not kept."""
    return NullRunner(model.config.vocab_size, model.config.eos_id)
