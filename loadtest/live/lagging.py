"""The latency of a simultaneous translation in words, and how much of what was shown was taken back."""

from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple


class Translated(NamedTuple):
    """A sentence that was translated while it grew."""

    source_words: int
    reference_words: int
    text: str
    delays: Sequence[int]
    """The number of source words read before each target word was committed."""
    shown: Sequence[str]
    """What a client saw after each source word: committed text and draft."""


def average_lagging(sentence: Translated, *, length_adaptive: bool) -> float:
    """Return the average lagging (Ma et al. 2019) in words; `length_adaptive` that of Papi et al. 2022 (LAAL).

    Words after the first one that has read the whole source do not count.
    """
    delays, source = sentence.delays, sentence.source_words
    target = max(len(delays), sentence.reference_words) if length_adaptive else sentence.reference_words
    if not delays or not target:
        return float(source)
    counted = next((number for number, delay in enumerate(delays, 1) if delay >= source), len(delays))
    lags = (delay - number * source / target for number, delay in enumerate(delays[:counted]))
    return sum(lags) / counted


def erasure(sentence: Translated) -> float:
    """Return the normalised erasure (Arivazhagan et al. 2020) of what was shown: words replaced per final word."""
    erased = 0
    for before, after in pairwise(text.split() for text in sentence.shown):
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
        erased += len(before) - same
    return erased / max(len(sentence.text.split()), 1)
