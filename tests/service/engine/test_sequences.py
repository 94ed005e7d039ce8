"""Hypotheses in their slots, step by step, with results that are made up."""

import pytest

from model.beam_search import Choice, Extension, Inspection
from service.engine.generation_request import Beam, GenerationRequest, GivenTerm
from service.engine.scheduler import sequence_of
from service.engine.sequences.beam import BeamSequence
from service.engine.sequences.rows import Row, SearchDiffers, StepResult
from tests.generation_requests import changed, generation_request

EOS = 2


def _request(
    forced: list[int] | None = None, sent: list[int] | None = None, beam: int = 1, alternatives: int = 0
) -> GenerationRequest:
    return generation_request(
        [7, EOS], 6, forced_ids=forced or [], sent_ids=sent or [], beam=Beam(beam, alternatives=alternatives)
    )


def _extension(parent: int, token: int, total: float) -> Extension:
    return Extension(parent, Choice(token, total), total)


def _tokens(written: StepResult) -> list[int]:
    return [choice.token for choice in written.choices]


def _places(rows: list[Row]) -> list[tuple[int, list[int]]]:
    return [(row.slot, row.ids) for row in rows]


def test_the_first_child_inherits_and_only_others_are_copied() -> None:
    sequence = BeamSequence(_request(beam=3), [0, 3, 8], EOS)
    assert _places(sequence.rows()) == [(0, [])]
    sequence.advance([_extension(0, 5, -0.1), _extension(0, 6, -0.2), _extension(0, 7, -0.3)])
    slots = [row.slot for row in sequence.rows()]
    assert slots[0] == 0
    assert sorted(slots) == [0, 3, 8]
    assert sorted(sequence.copies()) == [(0, 3, 1), (0, 8, 1)]
    assert {row.source_slot for row in sequence.rows()} == {0}

    # The first has no child, the second one, the third two.
    sequence.advance([_extension(2, 9, -0.4), _extension(1, 9, -0.5), _extension(2, 4, -0.6)])
    assert _places(sequence.rows()) == [(slots[2], [7, 9]), (slots[1], [6, 9]), (0, [7, 4])]
    assert sequence.copies() == [(slots[2], 0, 2)]

    sequence.advance([_extension(parent, 9, -0.7) for parent in range(3)])
    assert sequence.copies() == [], "one child each"


def test_a_beam_reports_what_is_settled_and_its_alternatives_at_the_end() -> None:
    sequence = BeamSequence(_request(beam=2, alternatives=1), [0, 1], EOS)
    assert _tokens(sequence.advance([_extension(0, 5, -0.1), _extension(0, 6, -0.2)])) == []
    assert _tokens(sequence.advance([_extension(0, 8, -0.3), _extension(0, 7, -0.4)])) == [5]
    assert _tokens(sequence.advance([_extension(0, EOS, -0.6), _extension(1, 4, -0.9)])) == []
    end = sequence.advance([_extension(0, EOS, -4.0), _extension(0, 9, -9.0)])
    assert (_tokens(end), end.finish_reason) == ([8, EOS], "stop")
    assert [(path.ids, path.total) for path in end.alternatives] == [([5, 7, 4, EOS], -4.0)]


def test_a_beam_reports_its_live_hypotheses_if_requested() -> None:
    steps = [
        [_extension(0, 5, -0.1), _extension(0, 6, -0.2)],
        [_extension(1, 8, -0.3), _extension(0, 7, -0.4), _extension(0, EOS, -0.5)],
        [_extension(0, EOS, -0.6), _extension(1, EOS, -0.7)],
    ]
    request = changed(_request(beam=2), hypotheses=True)
    inspected = BeamSequence(request, [0, 1], EOS)
    reported = [inspected.advance(step).live for step in steps]
    assert [[(each.parent, each.ids, each.logprob) for each in live] for live in reported] == [
        [(0, [5], -0.1), (0, [6], -0.2)],
        [(1, [8], -0.3), (0, [7], -0.4)],
        [],
    ]
    sequence = BeamSequence(_request(beam=2), [0, 1], EOS)
    assert not any(sequence.advance(step).live for step in steps), "nobody else pays"


def test_a_beam_after_a_prefix_reports_it_first() -> None:
    sequence = BeamSequence(changed(_request(forced=[5, 6], beam=2), hypotheses=True, decoder_ids=[40]), [0, 1], EOS)
    [first] = sequence.advance([_extension(0, 5, -1.0), _extension(0, 6, -2.0)]).live
    assert (first.ids, first.logprob) == ([5, 6], -3.0)
    assert [each.ids for each in sequence.advance([_extension(0, 9, -3.5), _extension(0, 8, -4.0)]).live] == [[9], [8]]


SEARCHED = [
    [_extension(0, 5, -0.1), _extension(0, 6, -0.2)],
    [_extension(0, 8, -0.3), _extension(0, 7, -0.4)],
    [_extension(1, 4, -0.5), _extension(1, 3, -0.6)],
    [_extension(0, EOS, -0.6), _extension(1, EOS, -0.7)],
]


@pytest.mark.parametrize("sent", [[6], [5, 8], [5, 7, 4, EOS], [5, 7, 4, EOS, 9]])
def test_a_beam_that_is_searched_again_and_differs_says_so(sent: list[int]) -> None:
    sequence = BeamSequence(_request(beam=2, sent=sent), [0, 1], EOS)
    with pytest.raises(SearchDiffers):
        [sequence.advance(step) for step in SEARCHED]


def test_a_beam_behind_a_prefix_counts_it_in_its_scores() -> None:
    sequence = BeamSequence(_request(forced=[5, 6], beam=2), [0, 1], EOS)
    assert [(row.ids, row.forced, row.num_extensions) for row in sequence.rows()] == [([], 5, 1), ([5], 6, 1)]
    assert _tokens(sequence.advance([_extension(0, 5, -1.0), _extension(0, 6, -2.0)])) == [5, 6]
    [row] = sequence.rows()
    assert (row.ids, row.total, row.num_extensions) == ([5, 6], -3.0, 4)


def test_a_beam_at_its_limit_is_cut() -> None:
    sequence = BeamSequence(generation_request([7, EOS], 1, beam=Beam(2)), [0, 1], EOS)
    end = sequence.advance([_extension(0, 5, -0.1), _extension(0, 6, -0.2)])
    assert (_tokens(end), end.finish_reason) == ([5], "length")


@pytest.mark.parametrize("beam", [1, 2])
def test_what_comes_in_the_place_of_an_end_looks_where_the_end_looked(beam: int) -> None:
    terms = [GivenTerm(0, 1, [9])]
    request = changed(_request(beam=beam), terms=terms, alignment=True, attention=True, self_attention=True)
    sequence = sequence_of(request, [4, 5][:beam], EOS)
    end = Choice(EOS, -0.1, inspection=Inspection((), (0, 0.5), (0.5, 0.5), [[1.0], [1.0]]))
    [choice] = sequence.advance([Extension(0, end, -0.1)]).choices
    assert choice == end._replace(token=9, logprob=0.0, term=0)


def _with_a_term(beam: int) -> GenerationRequest:
    return changed(_request(beam=beam), terms=[GivenTerm(0, 1, [9, 10])], closing_ids=[30])


def test_a_term_without_a_place_comes_before_the_mark_that_closes_the_sentence() -> None:
    sequence = sequence_of(_with_a_term(1), [4], EOS)
    assert _tokens(sequence.advance([_extension(0, 8, -1.0)])) == [8]
    assert _tokens(sequence.advance([_extension(0, 30, -1.0)])) == [9]
    [row] = sequence.rows()
    assert (row.forced, row.term) == (10, 0)
    sequence.advance([Extension(0, Choice(10, 0.0, term=0), 0.0)])
    assert _tokens(sequence.advance([_extension(0, 30, -1.0)])) == [30]
    assert sequence.advance([_extension(0, EOS, -1.0)]).finish_reason == "stop"


@pytest.mark.parametrize(
    ("extensions", "expected"),
    [
        ([(30, -1.0), (8, -2.0), (EOS, -3.0)], [[9], [8]]),
        ([(8, -1.0), (30, -2.0), (7, -3.0)], [[8], [30]]),
        ([(8, -1.0), (7, -2.0), (EOS, -3.0)], [[9], [8]]),
    ],
    ids=["once", "a mark that is not the best stays", "an end never does"],
)
def test_so_it_does_in_a_beam(extensions: list[tuple[int, float]], expected: list[list[int]]) -> None:
    sequence = sequence_of(_with_a_term(2), [4, 5], EOS)
    sequence.advance([_extension(0, token, total) for token, total in extensions])
    assert [row.ids for row in sequence.rows()] == expected
