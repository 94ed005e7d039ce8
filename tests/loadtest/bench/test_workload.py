"""Requests: the same everywhere, of the lengths that were promised."""

import statistics

import pytest

from loadtest.bench.workload import (
    LONGEST,
    MEAN,
    SHORTEST,
    length_word,
    make_requests,
)
from model.config import ModelConfig

SMALL = ModelConfig(vocab_size=8000)


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
