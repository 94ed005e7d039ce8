"""Tests of the moment at which a given term is forced."""

import pytest

from service.engine.forced_terms import attended_term, started_term, term_progress
from service.engine.generation_request import GivenTerm

TERMS = [GivenTerm(1, 3, [5, 6]), GivenTerm(4, 5, [5])]


def test_what_is_open_follows_from_what_was_written() -> None:
    assert term_progress([], [None]) == ((), None, ())
    assert term_progress(TERMS, []) == ([], None, [0, 1])
    assert term_progress(TERMS, [None, 0]) == ([6], 0, [1])
    assert term_progress(TERMS, [None, 0, 0]) == ([], None, [1])
    assert term_progress(TERMS, [0, 0, None, 1]) == ([], None, [])


@pytest.mark.parametrize(
    ("weights", "pending", "expected"),
    [
        ([0.02, 0.5, 0.45, 0.0, 0.0], [0, 1], 0),
        ([0.02, 0.5, 0.45, 0.0, 0.0], [1], None),
        ([0.1, 0.4, 0.4, 0.0, 0.1], [0, 1], None),
        ([0.0, 0.0, 0.0, 0.0, 0.2], [0, 1], 1),  # the rest was on the end
    ],
)
def test_a_term_comes_when_nearly_all_attention_is_on_it(
    weights: list[float], pending: list[int], expected: int | None
) -> None:
    assert attended_term(TERMS, pending, weights, [9.0] * len(pending)) == expected


@pytest.mark.parametrize(
    ("distances", "expected"), [([9.0, 9.0], None), ([9.0, 1.0], 1), ([1.0, 1.0], 0), ([1.0, 0.0], 0)]
)
def test_or_when_it_is_nearly_begun_and_looked_at(distances: list[float], expected: int | None) -> None:
    assert attended_term(TERMS, [0, 1], [0.3, 0.2, 0.2, 0.1, 0.2], distances) == expected
    assert attended_term(TERMS, [0], [0.9, 0.0, 0.0, 0.0, 0.1], distances[:1]) is None


def test_a_term_that_the_model_begins_is_the_one_that_it_looks_at_more() -> None:
    assert started_term(TERMS, [0, 1], [0.5, 0.1, 0.0, 0.0, 0.2], 5) == 1
    assert started_term(TERMS, [0], [0.5, 0.1, 0.0, 0.0, 0.2], 5) == 0
    assert started_term(TERMS, [0, 1], [0.5, 0.1, 0.0, 0.0, 0.2], 6) is None
    assert started_term(TERMS, [0, 1], [1.0, 0.0, 0.0, 0.0, 0.0], 5) is None
