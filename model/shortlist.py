"""A lexical shortlist: the words that a translation can have, by the words of its source.

A table of ids, learned from aligned words. It knows neither texts nor models: formats read it, checkpoints keep it, and
engines compute the logits of its words alone.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

ALL_WORDS: Final = torch.empty(0, dtype=torch.bool)
"""The words of translations without a shortlist."""


class Shortlist(NamedTuple):
    """The target words for each source word."""

    always: Tensor
    """Words that every translation can have, among them the end of the sentence: int32."""
    offsets: Tensor
    """The words of source word s are `words[offsets[s]:offsets[s + 1]]`: int64 `[source words + 1]`."""
    words: Tensor
    """int32."""

    def allowed(
        self, ids: Tensor, lengths: Sequence[int], required: Sequence[Sequence[int]], vocab_size: int
    ) -> Tensor:
        """Return the words that the translation of each source can have: bool `[sources, vocab_size]`.

        `ids [tokens]` has the sources one after the other. Each can also have its `required` words.
        """
        allowed = torch.zeros(len(lengths), vocab_size, dtype=torch.bool)
        allowed.index_fill_(1, self.always.long(), True)
        starts = self.offsets[ids]
        counts = self.offsets[ids + 1] - starts
        before = counts.cumsum(0) - counts
        places = (starts - before).repeat_interleave(counts)
        places += torch.arange(len(places))
        first = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths)) * vocab_size
        found = self.words[places] + first.repeat_interleave(counts)
        allowed.view(-1).index_fill_(0, found, True)
        for row, own in zip(allowed, required, strict=True):
            if own:
                row[list(own)] = True
        return allowed

    def problems(self, source_words: int, target_words: int) -> list[str]:
        """Return the problems of a shortlist for vocabularies of these sizes."""
        if self.offsets.dtype != torch.int64 or {self.always.dtype, self.words.dtype} != {torch.int32}:
            return ["its numbers are of a wrong type"]
        if any(tensor.dim() != 1 for tensor in self) or len(self.offsets) != source_words + 1:
            return [f"its offsets are {list(self.offsets.shape)}, expected {[source_words + 1]}"]
        problems = []
        if self.offsets[0] != 0 or self.offsets[-1] != len(self.words) or (self.offsets.diff() < 0).any():
            problems.append(f"its offsets do not cover the {len(self.words)} words")
        ids = torch.cat([self.always, self.words])
        if not len(self.always) or ids.min() < 0 or ids.max() >= target_words:
            problems.append(f"it has a word that is none of the {target_words} of the target")
        return problems
