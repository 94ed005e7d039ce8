"""Beam search in the continuous batch is `beam_decode`, whatever runs beside it."""

from functools import cache
from itertools import pairwise

import pytest
import torch

from model.config import ModelConfig
from model.decoding import Hypothesis, beam_decode, greedy_decode
from service.engine.generation_request import Beam, Constraints, GenerationRequest, Sampling
from service.engine.messages import Cancel, Command, Submit
from tests.conftest import random_model
from tests.generation_requests import changed, generation_request
from tests.parity.engine import EOS, Arrivals, Run, alignment_of, logprobs_of, sources

LIMIT = 25


@cache
def _oracle(config: ModelConfig, count: int, beam: int, length_penalty: float = 1.0) -> list[list[Hypothesis]]:
    """Decode offline, once for all runners."""
    return beam_decode(random_model(config), sources(count), LIMIT, beam, length_penalty, alternatives=beam)


def _submits(requests: list[GenerationRequest]) -> list[Command]:
    return [Submit(number, request, 0.0) for number, request in enumerate(requests)]


def _assert_found(arrivals: Arrivals, number: int, expected: list[Hypothesis], length_penalty: float) -> None:
    """The stream is the best hypothesis, the alternatives are the others, and their log-probabilities the scores."""
    assert arrivals.tokens[number] == expected[0].ids
    *earlier, last = arrivals.reports[number]
    assert all(report.finish_reason is None and not report.alternatives for report in earlier)
    assert last.finish_reason == ("stop" if expected[0].ids[-1] == EOS else "length")
    assert [[token.token_id for token in each.tokens] for each in last.alternatives] == [
        hypothesis.ids for hypothesis in expected[1:]
    ]
    totals = [sum(arrivals.logprobs[number]), *(each.logprob for each in last.alternatives)]
    for total, hypothesis in zip(totals, expected, strict=True):
        assert total / len(hypothesis.ids) ** length_penalty == pytest.approx(hypothesis.score, abs=1e-4)


@pytest.mark.parametrize(
    ("beam", "slots", "length_penalty"),
    [
        (2, 2, 1.0),
        (4, 9, 0.0),
        (7, 16, 0.6),
        *(pytest.param(4, *each, marks=pytest.mark.slow) for each in [(64, 1.0), (9, 1.8)]),
    ],
)
def test_beams(run: Run, config: ModelConfig, beam: int, slots: int, length_penalty: float) -> None:
    texts = sources(24)
    expected = _oracle(config, 24, beam, length_penalty)
    options = Beam(beam, length_penalty, alternatives=beam - 1)
    arrivals = run(
        config, _submits([generation_request(s, LIMIT, beam=options) for s in texts]), slots=slots, seed=beam
    )
    for number, hypotheses in enumerate(expected):
        _assert_found(arrivals, number, hypotheses, length_penalty)
    endings = {arrivals.reports[number][-1].finish_reason for number in range(24)}
    lengths = {len(ids) for ids in arrivals.tokens.values()}
    assert len(lengths) > 3, "searches that all end together test nothing"
    assert "stop" in endings


def test_beams_of_every_width_beside_greedy_and_sampled_requests(run: Run, config: ModelConfig) -> None:
    """Five kinds in one batch, with cancelled beams between them."""
    texts, model = sources(35), random_model(config)
    kinds = [
        generation_request([], LIMIT),
        generation_request([], LIMIT, Sampling(temperature=1.0, seed=4)),
        generation_request([], LIMIT, beam=Beam(3, 0.6, 2)),
        generation_request([], LIMIT, beam=Beam(5, 1.0, 4)),
        generation_request([], LIMIT, constraints=Constraints(1.3, 2), candidates=3),
    ]
    requests = [changed(kinds[number % 5], source_ids=source) for number, source in enumerate(texts)]
    commands: list[Command] = []
    for number, request in enumerate(requests):
        commands.append(Submit(number, request, 0.0))
        if number % 7 == 6:
            commands.append(Cancel(number - 2))
    arrivals = run(config, commands, slots=12, seed=8)
    assert max(arrivals.slots_used) == 12
    assert arrivals.slots_used[-1] == 0
    greedy = greedy_decode(model, texts, LIMIT)
    for number, request in enumerate(requests):
        reports = arrivals.reports.get(number, [])
        if number % 7 == 4 and (not reports or reports[-1].finish_reason is None):
            continue  # it was cancelled in time
        if number % 5 == 0:
            assert arrivals.tokens[number] == greedy[number]
        elif number % 5 in (2, 3):
            beam = request.search.beam
            [expected] = beam_decode(
                model, [request.prompt.source_ids], LIMIT, beam.size, beam.length_penalty, beam.size
            )
            _assert_found(arrivals, number, expected, beam.length_penalty)
        else:
            alone = run(config, _submits([request]), slots=1, seed=0)
            assert arrivals.tokens[number] == alone.tokens[0]


def test_what_is_reported_early_stays(run: Run, config: ModelConfig) -> None:
    """Tokens come before the search ends, and it ends as the oracle's."""
    texts = sources(30)
    arrivals = run(config, _submits([generation_request(s, LIMIT, beam=Beam(4)) for s in texts]), slots=64, seed=1)
    expected = _oracle(config, 30, 4)
    assert [arrivals.tokens[number] for number in range(30)] == [best.ids for best, *_ in expected]
    early = sum(len(set(moments)) > 1 for moments in arrivals.moments.values())
    assert early > 10


@pytest.mark.parametrize("beam", [1, 3])
def test_a_forced_prefix_is_part_of_the_translation(run: Run, config: ModelConfig, beam: int) -> None:
    """A forced prefix has the effect of making every other token impossible at its positions."""
    model, prefix = random_model(config), [40, 41, 40]
    for source in sources(8):
        request = generation_request(source, 12, beam=Beam(beam), forced_ids=prefix)
        arrivals = run(config, _submits([request]), slots=beam, seed=0)
        ids = arrivals.tokens[0]
        assert ids[:3] == prefix
        logprobs = logprobs_of(model, source, ids)
        own = logprobs.gather(-1, torch.tensor(ids)[:, None]).squeeze(-1).tolist()
        assert arrivals.logprobs[0] == pytest.approx(own, abs=1e-4)
        if beam == 1:
            assert logprobs[3:].argmax(-1).tolist() == ids[3:]


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_beam_that_lost_its_engine_goes_on_where_its_reader_is(run: Run, config: ModelConfig, every: int) -> None:
    """Its engine dies behind each token of two sources in turn, or behind some of six, for each source others."""
    for number, source in enumerate(sources(1 + every)):
        for forced in ([], [40, 41]):
            request = generation_request(source, 15, beam=Beam(4, alternatives=2), forced_ids=forced)
            whole = run(config, _submits([request]), slots=4, seed=0)
            for cut in range(1 + number % every, len(whole.tokens[0]), every):
                again = changed(request, sent_ids=whole.tokens[0][:cut])
                rest = run(config, _submits([again]), slots=4, seed=0)
                assert rest.reports[0] == whole.reports[0][cut:]


@pytest.mark.parametrize("beam", [1, 3])
def test_constraints_hold(run: Run, config: ModelConfig, beam: int) -> None:
    texts = sources(20)
    plain = [generation_request(source, LIMIT, beam=Beam(beam)) for source in texts]
    strict = [
        generation_request(source, LIMIT, beam=Beam(beam), constraints=Constraints(no_repeat_ngram_size=2))
        for source in texts
    ]

    def repeats(requests: list[GenerationRequest]) -> int:
        arrivals = run(config, _submits(requests), slots=30, seed=0)
        pairs = [list(pairwise(ids)) for ids in arrivals.tokens.values()]
        return sum(len(each) - len(set(each)) for each in pairs)

    assert repeats(plain) > 10, "a model that does not repeat itself tests nothing"
    assert repeats(strict) == 0
    penalised = [generation_request(s, LIMIT, beam=Beam(beam), constraints=Constraints(1.5)) for s in texts]
    assert repeats(penalised) < repeats(plain)


def test_candidates_are_the_most_probable_of_each_place(run: Run, config: ModelConfig) -> None:
    model, source = random_model(config), sources(1)[0]
    for request in (
        generation_request(source, 8, candidates=5),
        generation_request(source, 8, Sampling(temperature=3.0, seed=1), candidates=5),
        generation_request(source, 8, beam=Beam(3), candidates=5),
        generation_request(source, 8, forced_ids=[40, 41], candidates=5),
    ):
        arrivals = run(config, _submits([request]), slots=3, seed=0)
        logprobs = logprobs_of(model, source, arrivals.tokens[0])
        for report, place in zip(arrivals.reports[0], logprobs, strict=True):
            best = place.topk(5)
            tokens, logprobabilities = zip(*report.inspection.candidates, strict=True)
            assert [*tokens] == best.indices.tolist()
            assert [*logprobabilities] == pytest.approx(best.values.tolist(), abs=1e-4)
            assert report.logprob == pytest.approx(place[report.token_id].item(), abs=1e-4)


def test_alignments_are_what_the_last_layer_looks_at(run: Run, config: ModelConfig) -> None:
    model, texts = random_model(config), sources(12)
    kinds = (Beam(), Beam(3))
    requests = [generation_request(s, 8, beam=kinds[i % 2], alignment=i % 3 > 0) for i, s in enumerate(texts)]
    arrivals = run(config, _submits(requests), slots=12, seed=0)
    for number, request in enumerate(requests):
        weights = alignment_of(model, request.prompt.source_ids, arrivals.tokens[number])[:, :-1]
        for report, each in zip(arrivals.reports[number], weights, strict=True):
            if not request.inspect.alignment:
                assert report.inspection.alignment is None
                continue
            assert report.inspection.alignment is not None
            position, weight = report.inspection.alignment
            assert weight == pytest.approx(each.max().item(), abs=1e-5)
            assert each[position].item() == pytest.approx(weight, abs=1e-5)
