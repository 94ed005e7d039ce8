"""Requests: the same everywhere, of the lengths that were promised."""

import statistics

import pytest

from loadtest.compare.workload import LONGEST, MEAN, SHAPES, SHORTEST, Shape, length_word, make_requests, request_count

SMALL = SHAPES["small"]


def test_same_seed_same_requests() -> None:
    assert make_requests(50, SMALL, seed=1) == make_requests(50, SMALL, seed=1)
    assert make_requests(50, SMALL, seed=1) != make_requests(50, SMALL, seed=2)


def test_requests_do_not_depend_on_the_machine() -> None:
    first = make_requests(3, SMALL, seed=1)

    assert [(len(request.source_ids), request.new_tokens) for request in first] == [(31, 30), (38, 33), (49, 52)]


def test_more_requests_begin_with_the_same_ones() -> None:
    assert make_requests(60, SMALL, seed=1)[:50] == make_requests(50, SMALL, seed=1)


def test_lengths_are_lognormal() -> None:
    targets = [request.new_tokens for request in make_requests(20_000, SMALL, seed=0)]

    assert min(targets) == SHORTEST
    assert max(targets) == LONGEST
    assert statistics.mean(targets) == pytest.approx(MEAN, abs=0.5)
    # The median of a lognormal is exp(-sigma^2 / 2) of its mean: 22.06 for sigma 0.5.
    assert statistics.median(targets) == pytest.approx(22, abs=0.5)


def test_sources_follow_their_targets() -> None:
    requests = make_requests(5_000, SMALL, seed=0)
    sources = [len(request.source_ids) for request in requests]

    assert statistics.correlation(sources, [request.new_tokens for request in requests]) > 0.95
    assert SHORTEST <= min(sources) <= max(sources) <= LONGEST


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_holds_the_longest_request(shape: Shape) -> None:
    assert SHAPES[shape].max_positions >= LONGEST


def test_source_ids_are_a_length_word_and_words_ended_by_eos() -> None:
    for request in make_requests(200, SMALL, seed=0):
        first, *words, end = request.source_ids
        assert first == length_word(SMALL, request.new_tokens)
        assert end == SMALL.eos_id
        assert not {SMALL.pad_id, SMALL.bos_id, SMALL.eos_id} & set(words)
        assert max(words) < SMALL.vocab_size
        assert min(words) > length_word(SMALL, LONGEST)


@pytest.mark.parametrize("concurrency", [1, 4, 5, 16, 64])
def test_batches_are_full(concurrency: int) -> None:
    count = request_count(concurrency)

    assert count % concurrency == 0
    assert count >= max(24, 4 * concurrency)
