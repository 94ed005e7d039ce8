"""Given terms come as they are given, once each, in every kind of search, in any company and after a death."""

import pytest

from model.config import ModelConfig
from service.engine.generation_request import Beam, GenerationRequest, GivenTerm, Sampling
from service.engine.messages import Submit, TokenReport
from tests.generation_requests import changed, generation_request
from tests.parity.engine import EOS, Run, sources

KINDS = [(Beam(), Sampling()), (Beam(), Sampling(1.0, seed=5)), (Beam(3, alternatives=2), Sampling())]
GIVEN = [[90, 91, 92], [90, 94]]


def _requests(beam: Beam, sampling: Sampling) -> list[GenerationRequest]:
    return [
        generation_request(
            source,
            40,
            sampling,
            beam=beam,
            # Much of each source, so that it is looked at in time.
            terms=[GivenTerm(0, len(source) // 2, GIVEN[0]), GivenTerm(len(source) // 2, len(source), GIVEN[1])],
        )
        for source in sources(8)
    ]


def _forced_by_terms(tokens: list[TokenReport]) -> dict[int, list[int]]:
    """The tokens of each term; those of one stand together."""
    found: dict[int, list[int]] = {}
    last = None
    for token in tokens:
        if token.term is not None:
            assert token.term == last or token.term not in found
            found.setdefault(token.term, []).append(token.token_id)
        last = token.term
    return found


@pytest.mark.parametrize(("beam", "sampling"), KINDS)
def test_each_term_comes_once(config: ModelConfig, run: Run, beam: Beam, sampling: Sampling) -> None:
    requests = _requests(beam, sampling)
    submits = [Submit(number, request, 0.0) for number, request in enumerate(requests)]
    arrivals = run(config, list(submits), slots=9, seed=1)
    complete = 0
    for number, request in enumerate(requests):
        tokens = arrivals.reports[number]
        versions = [tokens, *(each.tokens for each in tokens[-1].alternatives)]
        for version in versions:
            given = _forced_by_terms(version)
            for place, ids in given.items():
                assert ids == request.constraints.terms[place].ids[: len(ids)]
            if version[-1].token_id == EOS:
                assert given == {place: term.ids for place, term in enumerate(request.constraints.terms)}
            complete += sum(ids == request.constraints.terms[place].ids for place, ids in given.items())
        alone = run(config, [submits[number]], slots=9, seed=1)
        assert alone.tokens[number] == arrivals.tokens[number]
    assert complete > 0


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("beam", "sampling"), KINDS)
def test_they_survive_the_death_of_an_engine(
    config: ModelConfig, run: Run, beam: Beam, sampling: Sampling, every: int
) -> None:
    request = _requests(beam, sampling)[0]
    whole = run(config, [Submit(0, request, 0.0)], slots=3, seed=0).reports[0]
    for cut in range(1, len(whole), every):
        sent = [token.token_id for token in whole[:cut]]
        forced = sent if beam.size == 1 else []
        terms = [token.term for token in whole[:cut]]
        again = changed(request, forced_ids=forced, sent_ids=sent, sent_terms=terms)
        rest = run(config, [Submit(0, again, 0.0)], slots=3, seed=0).reports[0]
        assert [(token.token_id, token.term) for token in rest] == [
            (token.token_id, token.term) for token in whole[cut:]
        ]


def test_a_limit_cuts_a_term_too(config: ModelConfig, run: Run) -> None:
    source = sources(1)[0]
    request = generation_request(source, 5, terms=[GivenTerm(0, len(source), [90] * 9)])
    [*_, last] = run(config, [Submit(0, request, 0.0)], slots=1, seed=0).reports[0]
    assert last.finish_reason == "length"
