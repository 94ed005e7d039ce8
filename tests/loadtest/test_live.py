"""Lagging and erasure, by hand."""

import pytest

from loadtest.live.lagging import Translated, average_lagging, erasure
from loadtest.live.quality import name_of
from loadtest.live.speakers import Waits, table
from service.live.policies import PRESETS, Policy


def _translated(
    delays: list[int], reference: int = 4, shown: tuple[str, ...] = (), text: str = "a b c d"
) -> Translated:
    return Translated(4, reference, text, delays, shown)


@pytest.mark.parametrize(
    ("delays", "reference", "lagging", "adaptive"),
    [
        ([4, 4, 4, 4], 4, 4.0, 4.0),  # the whole sentence first
        ([1, 2, 3, 4], 4, 1.0, 1.0),  # one word behind
        ([3, 4, 4, 4], 4, 3.0, 3.0),
        ([1, 1, 2, 2, 3, 3, 4, 4], 4, -0.5, 1.0),  # too long: only the adaptive one does not reward it
        ([], 4, 4.0, 4.0),
    ],
)
def test_lagging(delays: list[int], reference: int, lagging: float, adaptive: float) -> None:
    translated = _translated(delays, reference)
    results = [average_lagging(translated, length_adaptive=each) for each in (False, True)]
    if len(delays) == 8:
        # The first seven words count: 1-0, 1-1, 2-2 ... and 1-0, 1-.5, 2-1 ...
        lagging, adaptive = sum((1, 0, 0, -1, -1, -2, -2)) / 7, sum((1, 0.5, 1, 0.5, 1, 0.5, 1)) / 7
    assert results == pytest.approx([lagging, adaptive])


def test_erasure_counts_words_that_were_replaced() -> None:
    assert erasure(_translated([], shown=("a", "a b", "a c d", "a c d"))) == 1 / 4
    assert erasure(_translated([], shown=("a b", "x"))) == 2 / 4


def test_names_and_percentiles() -> None:
    assert name_of(PRESETS["low"]).endswith("(low)")
    assert name_of(Policy("wait_k", 3)) == "wait_k 3"
    assert Waits([3.0, 1.0, 2.0], 4).percentile(0.5) == 2.0
    assert table([("a", "b"), ("1", "2")]) == "| a | b |\n|---|---|\n| 1 | 2 |"
