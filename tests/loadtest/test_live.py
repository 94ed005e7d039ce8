"""Speakers of live translation."""

from loadtest.live.speakers import Waits


def test_percentiles_are_of_the_words_that_had_an_event() -> None:
    assert Waits([3.0, 1.0, 2.0], 4).percentile(0.5) == 2.0
