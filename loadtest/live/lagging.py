"""The latency of a simultaneous translation in words, and how much of it was taken back."""

from collections.abc import Sequence
from typing import NamedTuple


class Translated(NamedTuple):
    """A sentence that was translated while it grew: `delays` are the source words read before each target word."""

    source_words: int
    reference_words: int
    text: str
    delays: Sequence[int]
    drafted: int
    """Words of all drafts that a later one did not have at the same place."""


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
