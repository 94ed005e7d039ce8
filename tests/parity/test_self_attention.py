"""Reported self-attention is the weights that the decoder had over its own text when it generated the token."""

import pytest
import torch

from model.checkpoint import load_model
from model.checkpoint_config import load_tokenizer
from model.config import ModelConfig
from service.engine.generation_request import Beam, GivenTerm, Sampling
from service.engine.messages import Command, Submit, TokenReport
from service.engine.modes import MODES
from service.settings import EMBEDDED_MODEL
from tests.conftest import random_model
from tests.generation_requests import changed, generation_request
from tests.parity.engine import Run, run_with, self_attention_of, sources
from tests.system.sentences import SENTENCES

LIMIT = 12
KINDS = {
    "greedy": generation_request([], LIMIT),
    "sampled": generation_request([], LIMIT, Sampling(2.0, seed=3)),
    "beam": generation_request([], LIMIT, beam=Beam(4, alternatives=2)),
    "prefix": generation_request([], LIMIT, forced_ids=[40, 41, 40]),
    "prompt": generation_request([], LIMIT, decoder_ids=[44, 45]),
    "beam with a prefix and a prompt": generation_request([], LIMIT, beam=Beam(3), forced_ids=[40], decoder_ids=[44]),
    "terms": generation_request([], LIMIT, terms=[GivenTerm(0, 1, [50, 51])]),
}


def _assert_is_what_was_looked_at(
    reports: list[TokenReport], expected: torch.Tensor, prompt: int, tolerance: float
) -> None:
    """`expected [layers, queries, keys]`, of the prompt's positions too; queries see no keys after their own."""
    for number, report in enumerate(reports):
        position = prompt + number
        assert report.inspection.self_attention is not None
        for own, layer in zip(report.inspection.self_attention, expected, strict=True):
            assert own == pytest.approx(layer[position, : position + 1].tolist(), abs=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_that_of_a_full_pass(run: Run, config: ModelConfig, kind: str) -> None:
    """However the translation is searched for, and beside requests that do not ask."""
    model, texts = random_model(config), sources(10)
    requests = [changed(KINDS[kind], source_ids=text, self_attention=i % 3 < 2) for i, text in enumerate(texts)]
    commands: list[Command] = [Submit(i, request, 0.0) for i, request in enumerate(requests)]
    arrivals = run(config, commands, slots=9, seed=4)
    for number, request in enumerate(requests):
        reports = arrivals.reports[number]
        if not request.inspect.self_attention:
            assert all(report.inspection.self_attention is None for report in reports)
            continue
        ids = request.prompt.decoder_ids + arrivals.tokens[number]
        expected = self_attention_of(model, request.prompt.source_ids, ids)
        _assert_is_what_was_looked_at(reports, expected, len(request.prompt.decoder_ids), 1e-5)
        others = [token for other in reports[-1].alternatives for token in other.tokens]
        assert not any(token.inspection.self_attention for token in others)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_second_engine_goes_on_with_it(run: Run, config: ModelConfig, beam: int) -> None:
    for source in sources(3):
        request = generation_request(source, LIMIT, beam=Beam(beam), self_attention=True)
        whole = run(config, [Submit(0, request, 0.0)], slots=beam, seed=0)
        sent = whole.tokens[0][:-1][:4]
        again = changed(request, sent_ids=sent, forced_ids=sent if beam == 1 else [])
        rest = run(config, [Submit(0, again, 0.0)], slots=beam, seed=0)
        for ours, expected in zip(rest.reports[0], whole.reports[0][len(sent) :], strict=True):
            layers, expected_layers = ours.inspection.self_attention, expected.inspection.self_attention
            assert layers is not None
            assert expected_layers is not None
            for own, layer in zip(layers, expected_layers, strict=True):
                assert own == pytest.approx(layer, abs=1e-5)


@pytest.mark.parametrize("beam", [1, 4])
def test_in_int8_it_is_near_that_of_the_float_weights(beam: int) -> None:
    """Weights of all sentences of the embedded model differed by 0.0104 at most, and by 0.002 on average."""
    model = load_model(EMBEDDED_MODEL, MODES["int8"].dtype)
    config, tokenizer = model.config, load_tokenizer(EMBEDDED_MODEL)
    runner = MODES["int8"].build_runner(load_model(EMBEDDED_MODEL, MODES["int8"].dtype), 8, 64)
    request = generation_request([], 40, beam=Beam(beam), self_attention=True)
    requests = [changed(request, source_ids=tokenizer.encode(text)) for text in SENTENCES[::20]]
    commands: list[Command] = [Submit(i, request, 0.0) for i, request in enumerate(requests)]
    arrivals = run_with(runner, config, commands, slots=8, seed=0)
    for number, request in enumerate(requests):
        expected = self_attention_of(model, request.prompt.source_ids, arrivals.tokens[number])
        _assert_is_what_was_looked_at(arrivals.reports[number], expected, 0, 0.02)
