"""The engine's continuous batch gives what offline decoding gives, however requests arrive."""

import random

import pytest
import torch

from model.config import ModelConfig
from model.decoding import greedy_decode
from model.sampling import SamplingParameters, noise_state, sample
from service.engine.loop import EngineLoop
from service.engine.request import Cancel, Command, GenerationRequest, Report, Sampling, StepReport, Submit
from service.engine.runner import EagerRunner
from service.engine.scheduler import Scheduler
from tests.conftest import random_model

EOS = 25  # a token that this random model likes to write, so that rows end at different times


class Arrivals:
    """A channel that hands out commands at random moments and collects what comes back."""

    def __init__(self, commands: list[Command], seed: int) -> None:
        self._commands = commands
        self._random = random.Random(seed)
        self.tokens: dict[int, list[int]] = {}
        self.logprobs: dict[int, list[float]] = {}

    def receive(self, *, wait: bool) -> list[Command] | None:
        if wait and not self._commands:
            return None
        count = self._random.randint(1 if wait else 0, 3)
        now, self._commands = self._commands[:count], self._commands[count:]
        return now

    def send(self, report: Report) -> None:
        assert isinstance(report, StepReport)
        assert not report.failed
        for token in report.tokens:
            self.tokens.setdefault(token.request_id, []).append(token.token_id)
            self.logprobs.setdefault(token.request_id, []).append(token.logprob)


@pytest.fixture
def config() -> ModelConfig:
    return ModelConfig(
        vocab_size=97, d_model=32, ffn_dim=64, num_heads=4, encoder_layers=2, decoder_layers=2, eos_id=EOS
    )


def _sources(count: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(5)
    lengths = torch.randint(1, 20, (count,), generator=generator).tolist()
    return [[*torch.randint(30, 97, (length,), generator=generator).tolist(), EOS] for length in lengths]


def _run(config: ModelConfig, commands: list[Command], *, slots: int, seed: int) -> Arrivals:
    arrivals = Arrivals(commands, seed)
    runner = EagerRunner(random_model(config), slots=slots, max_length=64)
    EngineLoop(Scheduler(slots=slots, max_prefill=3, eos_id=EOS), runner, arrivals, config.bos_id).run()
    return arrivals


@pytest.mark.parametrize("slots", [1, 5, 64])
def test_greedy(config: ModelConfig, slots: int) -> None:
    sources = _sources(40)
    expected = greedy_decode(random_model(config), sources, 30)
    assert len({len(ids) for ids in expected}) > 3, "rows that all end together test nothing"
    commands: list[Command] = [Submit(i, GenerationRequest(source, 30), 0.0) for i, source in enumerate(sources)]
    arrivals = _run(config, commands, slots=slots, seed=slots)
    assert [arrivals.tokens[i] for i in range(40)] == expected


def test_cancelled_neighbours_change_nothing(config: ModelConfig) -> None:
    sources = _sources(40)
    expected = greedy_decode(random_model(config), sources, 30)
    commands: list[Command] = []
    for i, source in enumerate(sources):
        commands.append(Submit(i, GenerationRequest(source, 30), 0.0))
        if i % 3 == 2:
            commands.append(Cancel(i - 1))
    arrivals = _run(config, commands, slots=8, seed=1)
    survivors = [i for i in range(40) if i % 3 != 1 or i == 39]
    assert [arrivals.tokens[i] for i in survivors] == [expected[i] for i in survivors]


def test_a_seeded_sample_does_not_depend_on_its_neighbours(config: ModelConfig) -> None:
    sampling = [Sampling(temperature=1.5, top_k=20, top_p=0.95, seed=i % 5) for i in range(30)]
    requests = [GenerationRequest(s, 20, o) for s, o in zip(_sources(30), sampling, strict=True)]
    together = _run(config, [Submit(i, r, 0.0) for i, r in enumerate(requests)], slots=8, seed=2)
    for i, request in enumerate(requests):
        alone = _run(config, [Submit(i, request, 0.0)], slots=1, seed=3)
        assert together.tokens[i] == alone.tokens[i]
    assert len({tuple(ids) for ids in together.tokens.values()}) > 20


def test_each_position_draws_its_own_number(config: ModelConfig) -> None:
    """The engine's sample is `sample` over the full forward pass with `noise_state(seed, position)`."""
    model, source = random_model(config), _sources(1)[0]
    request = GenerationRequest(source, 12, Sampling(temperature=2.0, seed=11))
    ids = _run(config, [Submit(0, request, 0.0)], slots=1, seed=0).tokens[0]
    with torch.inference_mode():
        logits = model(torch.tensor([source]), torch.tensor([ids]))[0]
    noise = torch.tensor([noise_state(11, position) for position in range(len(ids))])
    options = SamplingParameters(torch.full((len(ids),), 2.0), torch.zeros_like(noise), torch.ones(len(ids)), noise)
    assert sample(logits, options).tokens.tolist() == ids


def test_a_forced_prefix_continues_as_if_never_interrupted(config: ModelConfig) -> None:
    """What makes a stream survive the death of its engine."""
    source = _sources(1)[0]
    for sampling in (Sampling(), Sampling(temperature=1.0, seed=3)):
        whole = _run(config, [Submit(0, GenerationRequest(source, 20, sampling), 0.0)], slots=1, seed=0)
        for cut in range(1, len(whole.tokens[0])):
            request = GenerationRequest(source, 20, sampling, forced_ids=whole.tokens[0][:cut])
            rest = _run(config, [Submit(0, request, 0.0)], slots=1, seed=0)
            assert rest.tokens[0] == whole.tokens[0][cut:]
            assert rest.logprobs[0] == whole.logprobs[0][cut:]
