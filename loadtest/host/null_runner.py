"""A runner that computes nothing: each translation has as many tokens as its source, drawn from a table."""

from typing import Final

import torch

from model.shortlist import Shortlist
from model.transformer import Transformer
from service.engine.batching import SourceBatch, StepBatch, StepScores

_FIRST_WORD: Final = 300
"""Lower ids stand for bytes and special tokens."""
_TABLE: Final = 1021
_NO_LOGITS: Final = torch.empty(0, 0)


class NullRunner:
    """Serves plain requests that have room for as many tokens as their source has."""

    def __init__(self, vocab_size: int, eos_id: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self._words = torch.randint(_FIRST_WORD, vocab_size, (_TABLE,), generator=generator)
        self._logprobs = -torch.rand(_TABLE, generator=generator)
        self._eos_id = eos_id

    def prefill(self, sources: SourceBatch) -> None:
        pass

    def decode(self, batch: StepBatch) -> StepScores:
        queries = batch.queries
        counts = (queries.source_lengths - queries.positions).clamp(1, batch.block.steps)
        positions = queries.positions + torch.arange(int(counts.max()))[:, None]
        places = (positions * 37 + queries.slots * 101) % _TABLE
        tokens = torch.where(positions + 1 >= queries.source_lengths, self._eos_id, self._words[places])
        return StepScores(tokens, self._logprobs[places], _NO_LOGITS, counts=counts)


def build_null_runner(model: Transformer, slots: int, max_length: int, shortlist: Shortlist | None) -> NullRunner:
    """Build the runner as the table of modes does; the model's weights are not kept."""
    return NullRunner(model.config.vocab_size, model.config.eos_id)
