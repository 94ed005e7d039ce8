"""Beam search without a model: what a stream may already say. Its rules are held in test_decoding.py."""

import random

import pytest

from model.beam_search import BeamSearch, Choice, Extension

EOS = 2


def _extension(parent: int, token: int, total: float) -> Extension:
    return Extension(parent, Choice(token, total), total)


def _ids(choices: list[Choice]) -> list[int]:
    return [choice.token for choice in choices]


def test_settled_is_what_all_live_hypotheses_share() -> None:
    search = BeamSearch(2, 1.0, EOS)
    search.advance([_extension(0, 5, -0.1), _extension(0, 6, -0.2)])
    assert search.settled(0) == []
    search.advance([_extension(0, 7, -0.3), _extension(0, 8, -0.4)])
    assert _ids(search.settled(0)) == [5]
    search.advance([_extension(1, 9, -0.5), _extension(1, 4, -0.6)])
    assert _ids(search.settled(1)) == [8]


def test_the_best_finished_hypothesis_can_still_win() -> None:
    search = BeamSearch(2, 1.0, EOS)
    search.advance([_extension(0, 5, -0.1), _extension(0, 6, -0.2)])
    search.advance([_extension(0, EOS, -0.3), _extension(1, 7, -0.4), _extension(1, 8, -0.5)])
    assert _ids(search.settled(0)) == [], "5 eos is finished, 6 goes on"
    search.advance([_extension(0, EOS, -0.31), _extension(0, 9, -9.0)])
    assert not search.live
    assert _ids(search.settled(0)) == [6, 7, EOS], "of two finished ones only the better counts"


def test_what_has_no_probability_does_not_count() -> None:
    search = BeamSearch(2, 1.0, EOS)
    assert len(search.advance([_extension(0, 5, -0.1), _extension(0, 6, float("-inf"))])) == 1
    assert len(search.live) == 1


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0])
def test_what_is_settled_never_changes(length_penalty: float) -> None:
    """Random searches: all that was ever settled is a prefix of the best in the end."""
    generator = random.Random(3)
    early = 0
    for _ in range(300):
        beam = generator.randint(1, 4)
        search = BeamSearch(beam, length_penalty, EOS)
        settled: list[int] = []
        for _ in range(8):
            extensions = [
                _extension(parent, token, path.total - generator.random() * 2)
                for parent, path in enumerate(search.live)
                for token in (EOS, 5, 6)
            ]
            search.advance(sorted(extensions, key=lambda each: -each.total)[: 2 * beam])
            if not search.live:
                break
            settled += _ids(search.settled(len(settled)))
            early += bool(settled)
        [best] = search.best(1)
        assert best.ids[: len(settled)] == settled
    assert early > 100, "streams that say nothing before the end test nothing"
