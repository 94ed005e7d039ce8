"""Requests: the same everywhere, of the lengths that were promised."""

import itertools
import math
import statistics

import pytest

from loadtest.bench.workload import (
    LONGEST,
    MEAN,
    SHORTEST,
    length_word,
    make_requests,
    poisson_arrivals,
    random_words,
)
from model.config import ModelConfig

SMALL = ModelConfig(vocab_size=8000)
WORDS = random_words(SMALL)


def test_same_seed_same_requests() -> None:
    assert make_requests(50, SMALL, seed=1) == make_requests(50, SMALL, seed=1)
    assert make_requests(50, SMALL, seed=1) != make_requests(50, SMALL, seed=2)


def test_lengths_are_lognormal() -> None:
    targets = [request.new_tokens for request in make_requests(20_000, SMALL, seed=0)]

    assert min(targets) == SHORTEST
    assert max(targets) == LONGEST
    assert statistics.mean(targets) == pytest.approx(MEAN, abs=0.5)
    # The median of a lognormal is exp(-sigma^2 / 2) of its mean: 22.06 for sigma 0.5.
    assert statistics.median(targets) == pytest.approx(22, abs=0.5)


def test_source_ids_are_a_length_word_and_words_ended_by_eos() -> None:
    for request in make_requests(200, SMALL, seed=0):
        first, *words, end = request.source_ids
        assert first == length_word(SMALL, request.new_tokens)
        assert end == SMALL.eos_id
        assert not {SMALL.pad_id, SMALL.bos_id, SMALL.eos_id} & set(words)
        assert max(words) < SMALL.vocab_size
        assert min(words) > length_word(SMALL, LONGEST)


def test_arrivals_have_their_rate() -> None:
    arrivals = poisson_arrivals(rate=50.0, seconds=400.0, workload=WORDS, seed=0)
    times = [arrival.at for arrival in arrivals]
    gaps = [after - before for before, after in itertools.pairwise([0.0, *times])]

    assert len(arrivals) == 20_000
    assert times[-1] == pytest.approx(400.0, rel=0.03)
    # Of an exponential distribution, the standard deviation is the mean, and the median is its log 2nd part.
    assert statistics.stdev(gaps) == pytest.approx(statistics.mean(gaps), rel=0.03)
    assert statistics.median(gaps) == pytest.approx(math.log(2) * statistics.mean(gaps), rel=0.03)
