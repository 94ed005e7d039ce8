"""An engine with a shortlist is the oracle of a model that has no other words, whatever the runner."""

from collections.abc import Callable

import pytest
import torch

from model.config import ModelConfig
from model.decoding import beam_decode, greedy_decode
from model.shortlist import Shortlist
from model.transformer import Transformer
from service.engine.generation_request import Beam, GenerationRequest, GivenTerm, Sampling
from service.engine.messages import Submit
from service.engine.modes import MODES
from service.engine.runner import EagerRunner, Runner
from tests.conftest import random_model
from tests.generation_requests import changed, generation_request
from tests.parity.engine import EOS, MAX_LENGTH, Arrivals, run_with, sources
from tests.shortlists import random_shortlist, words_of

LIMIT, SLOTS = 25, 9
Build = Callable[[Transformer, Shortlist | None], Runner]


def _eager(model: Transformer, shortlist: Shortlist | None) -> Runner:
    return EagerRunner(model, slots=SLOTS, max_length=MAX_LENGTH, shortlist=shortlist)


def _int8(model: Transformer, shortlist: Shortlist | None) -> Runner:
    return MODES["int8"].build_runner(model, SLOTS, MAX_LENGTH, shortlist)


@pytest.fixture
def biased(config: ModelConfig) -> ModelConfig:
    return config.model_copy(update={"projection_bias": True})


def _model(config: ModelConfig) -> Transformer:
    """A model that likes to end its sentences, although it has few words."""
    model = random_model(config)
    with torch.no_grad():
        model.projection.bias[EOS] += {"self_attention": 1.0, "ssru": 0.25}[config.decoder_memory]
    return model


def _restricted(config: ModelConfig, words: set[int]) -> Transformer:
    """The model without any other words."""
    model = _model(config)
    with torch.no_grad():
        model.projection.bias[[word for word in range(config.vocab_size) if word not in words]] = -torch.inf
    return model


def _run(runner: Runner, config: ModelConfig, requests: list[GenerationRequest], seed: int = 1) -> Arrivals:
    submits = [Submit(number, request, 0.0) for number, request in enumerate(requests)]
    return run_with(runner, config, list(submits), slots=SLOTS, seed=seed)


def test_in_fp32_it_is_the_oracle(biased: ModelConfig) -> None:
    shortlist, texts = random_shortlist(biased), sources(24)
    greedy = [generation_request(source, LIMIT) for source in texts]
    beams = [changed(request, beam=Beam(3, 0.7, alternatives=2)) for request in greedy]
    arrivals = _run(_eager(_model(biased), shortlist), biased, [*greedy, *beams])
    for number, source in enumerate(texts):
        model = _restricted(biased, words_of(shortlist, source))
        assert [arrivals.tokens[number]] == greedy_decode(model, [source], LIMIT)
        [expected] = beam_decode(model, [source], LIMIT, 3, 0.7, alternatives=3)
        found = arrivals.reports[number + len(texts)][-1].alternatives
        assert arrivals.tokens[number + len(texts)] == expected[0].ids
        assert [[token.token_id for token in each.tokens] for each in found] == [each.ids for each in expected[1:]]
    assert len({tuple(arrivals.tokens[number]) for number in range(len(texts))}) > 3
    assert len({len(arrivals.tokens[number]) for number in range(len(texts))}) > 2


@pytest.mark.usefixtures("operators")
def test_in_int8_it_is_the_engine_of_a_model_without_other_words(biased: ModelConfig) -> None:
    """Greedy, sampled, beams, candidates and rules against repetition."""
    shortlist = random_shortlist(biased)
    kinds = [
        generation_request([], LIMIT),
        generation_request([], LIMIT, Sampling(1.0, seed=3)),
        generation_request([], LIMIT, Sampling(0.8, 7, 0.9, 4)),
        generation_request([], LIMIT, beam=Beam(4, alternatives=3)),
        generation_request([], LIMIT, beam=Beam(2), no_repeat_ngram_size=2, repetition_penalty=1.3),
        generation_request([], LIMIT, candidates=4),
    ]
    requests = [changed(kinds[i % len(kinds)], source_ids=source) for i, source in enumerate(sources(24))]
    together = _run(_int8(_model(biased), shortlist), biased, requests)
    for number, request in enumerate(requests):
        model = _restricted(biased, words_of(shortlist, request.prompt.source_ids))
        alone = _run(_int8(model, None), biased, [request])
        assert together.tokens[number] == alone.tokens[0]
        assert together.logprobs[number] == pytest.approx(alone.logprobs[0], abs=1e-4)
        ours, theirs = (arrivals.reports[n][-1] for arrivals, n in ((together, number), (alone, 0)))
        assert [each.tokens[-1].token_id for each in ours.alternatives] == [
            each.tokens[-1].token_id for each in theirs.alternatives
        ]
        assert [token for token, _ in ours.inspection.candidates] == [
            token for token, _ in theirs.inspection.candidates
        ]


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize("build", [_eager, _int8])
@pytest.mark.parametrize("beam", [Beam(), Beam(3)])
def test_what_a_request_gives_is_written_whatever_the_source(build: Build, beam: Beam, config: ModelConfig) -> None:
    shortlist, texts = random_shortlist(config), sources(12)
    prefix, term = [90, 91, 95], [92, 93]
    given = {*prefix, *term}
    assert any(not given & words_of(shortlist, source) for source in texts)
    requests = [
        generation_request(source, LIMIT, beam=beam, forced_ids=prefix)
        if number % 2
        else generation_request(source, LIMIT, beam=beam, terms=[GivenTerm(0, len(source), term)])
        for number, source in enumerate(texts)
    ]
    arrivals = _run(build(random_model(config), shortlist), config, requests)
    for number, source in enumerate(texts):
        ids = arrivals.tokens[number]
        assert ids[:3] == prefix if number % 2 else set(term) <= {*ids}
        assert set(ids) <= words_of(shortlist, source, prefix if number % 2 else term)
        assert min(arrivals.logprobs[number]) > -torch.inf


def test_a_runner_with_fixed_shapes_refuses_one(config: ModelConfig) -> None:
    with pytest.raises(RuntimeError, match="shortlist: only the modes int8 and fp32 on a CPU"):
        MODES["bf16"].build_runner(random_model(config), SLOTS, MAX_LENGTH, random_shortlist(config))
