"""bf16: what it generates is, within its rounding, what the model in float32 finds most probable."""

import random

import pytest
import torch

from model.config import ModelConfig
from model.transformer import Transformer
from service.engine.generation_request import Beam, GenerationRequest, Sampling
from service.engine.messages import Command, Submit
from service.engine.modes import MODES
from tests.conftest import random_model
from tests.generation_requests import changed, generation_request
from tests.parity.engine import MAX_LENGTH, Arrivals, alignment_of, logprobs_of, run_with, sources

LIMIT = 25
ROUNDING = 0.2
"""Tolerance of a log-probability: eight bits of logits of about 10, and of the sum of them."""


@pytest.fixture
def requests() -> list[GenerationRequest]:
    kinds = [
        generation_request([], LIMIT),
        generation_request([], LIMIT, alignment=True),
        generation_request([], LIMIT, beam=Beam(3)),
        generation_request([], LIMIT, Sampling(1.0, seed=7)),
        generation_request([], LIMIT, forced_ids=[40, 41]),
    ]
    return [changed(kinds[number % len(kinds)], source_ids=source) for number, source in enumerate(sources(40))]


def _run(
    config: ModelConfig, device: torch.device, requests: dict[int, GenerationRequest], slots: int = 12
) -> Arrivals:
    model = random_model(config).to(device, torch.bfloat16)
    commands: list[Command] = [Submit(number, request, 0.0) for number, request in requests.items()]
    runner = MODES["bf16"].build_runner(model, slots, MAX_LENGTH)
    return run_with(runner, config, commands, slots=slots, seed=0)


def _differences(model: Transformer, requests: list[GenerationRequest], arrivals: Arrivals) -> list[float]:
    """Return the differences of the generated tokens' log-probabilities."""
    model = model.cpu()
    differences = []
    for number, request in enumerate(requests):
        ids = arrivals.tokens[number]
        logprobs = logprobs_of(model, request.prompt.source_ids, ids).float()
        own = logprobs.gather(-1, torch.tensor(ids)[:, None]).squeeze(-1)
        differences += (own - torch.tensor(arrivals.logprobs[number])).abs().tolist()
    return differences


def test_log_probabilities(config: ModelConfig, device: torch.device, requests: list[GenerationRequest]) -> None:
    arrivals = _run(config, device, dict(enumerate(requests)))
    for dtype in (torch.float32, torch.bfloat16):
        differences = _differences(random_model(config).to(dtype), requests, arrivals)
        assert max(differences) < ROUNDING
    assert max(differences) > 0, "so small a difference would be float32's"


@pytest.mark.slow
def test_greedy_is_nearly_the_best(config: ModelConfig, device: torch.device) -> None:
    texts = [generation_request(source, LIMIT) for source in sources(40)]
    arrivals = _run(config, device, dict(enumerate(texts)))
    model = random_model(config)
    for number, request in enumerate(texts):
        ids = arrivals.tokens[number]
        logprobs = logprobs_of(model, request.prompt.source_ids, ids)
        own = logprobs.gather(-1, torch.tensor(ids)[:, None]).squeeze(-1)
        assert (logprobs.amax(-1) - own).max() < 2 * ROUNDING


@pytest.mark.slow
def test_alignments(config: ModelConfig, device: torch.device, requests: list[GenerationRequest]) -> None:
    arrivals = _run(config, device, dict(enumerate(requests)))
    model = random_model(config)
    for number, request in enumerate(requests):
        if not request.inspect.alignment:
            continue
        weights = alignment_of(model, request.prompt.source_ids, arrivals.tokens[number])[:, :-1]
        for report, each in zip(arrivals.reports[number], weights, strict=True):
            assert report.inspection.alignment is not None
            position, weight = report.inspection.alignment
            assert each[position].item() == pytest.approx(weight, abs=0.05)


@pytest.mark.slow
def test_in_other_company_only_near_ties_fall_differently(
    config: ModelConfig, device: torch.device, requests: list[GenerationRequest]
) -> None:
    together = _run(config, device, dict(enumerate(requests)))
    model = random_model(config)
    order = random.Random(1).sample(range(len(requests)), 12)
    for number in order:
        request = requests[number]
        alone = _run(config, device, {number: request}, slots=3)
        ours, theirs = together.tokens[number], alone.tokens[number]
        if ours == theirs:
            assert together.logprobs[number] == pytest.approx(alone.logprobs[number], abs=ROUNDING)
        elif request.search.beam.size == 1 and request.search.sampling.temperature == 0:
            place = next(i for i, (our, their) in enumerate(zip(ours, theirs, strict=False)) if our != their)
            logprobs = logprobs_of(model, request.prompt.source_ids, ours)[place]
            assert abs(logprobs[ours[place]] - logprobs[theirs[place]]) < 2 * ROUNDING
