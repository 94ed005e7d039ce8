"""A random lexical shortlist."""

import torch

from model.config import ModelConfig
from model.shortlist import Shortlist


def random_shortlist(config: ModelConfig, *, most: int = 6) -> Shortlist:
    """Return up to `most` words for each source word, and a few for all."""
    generator = torch.Generator().manual_seed(7)
    source_words = config.source_vocab_size or config.vocab_size
    counts = torch.randint(0, most + 1, (source_words,), generator=generator)
    words = torch.randint(3, config.vocab_size, (int(counts.sum()),), generator=generator)
    always = torch.tensor(sorted({3, 4, config.eos_id}), dtype=torch.int32)
    return Shortlist(always, torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]), words.int())


def words_of(shortlist: Shortlist, source: list[int], required: list[int] | None = None) -> set[int]:
    """Return the words that a translation of the source can have, one word after the other."""
    words = {*shortlist.always.tolist(), *(required or ())}
    for token in source:
        start, end = shortlist.offsets[token : token + 2].tolist()
        words.update(shortlist.words[start:end].tolist())
    return words
