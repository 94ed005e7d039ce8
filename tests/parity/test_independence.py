"""int8, with the embedded model, an SSRU and a shortlist: a request gets the same bits alone, in company and later."""

import math
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from model import kernels
from model.checkpoint import load_model
from model.checkpoint_config import load_tokenizer
from model.tokenizer import Tokenizer
from service.engine import loop
from service.engine.batching import ONE_STEP, Block
from service.engine.generation_request import Beam, Constraints, GenerationRequest, Sampling
from service.engine.loop import EngineLoop
from service.engine.messages import Command, Submit, TokenReport
from service.engine.modes import MODES
from service.engine.runner import Runner
from service.engine.scheduler import Scheduler
from service.settings import EMBEDDED_MODEL
from service.supervisor.generation import Generation
from tests.conftest import random_model
from tests.generation_requests import changed, generation_request
from tests.parity.engine import Arrivals
from tests.shortlists import random_shortlist
from tests.system.sentences import SENTENCES

SLOTS = 40
LIMIT = 60
DRAFTS: dict[str, Callable[[list[int], list[int], random.Random], list[int]]] = {
    "right": lambda ids, other, generator: ids,
    "beginning": lambda ids, other, generator: ids[: generator.randrange(len(ids))],
    "wrong": lambda ids, other, generator: other,
    "wrong in the middle": lambda ids, other, generator: [
        each if generator.random() < 0.8 else other[0] for each in ids
    ],
    "too long": lambda ids, other, generator: [*ids, *other, *other][: 2 * LIMIT],
    "longer before the end": lambda ids, other, generator: [*ids[:-1], *other],
}
"""Drafts of a translation's tokens; also the tokens of another one."""


@dataclass
class Engine:
    tokenizer: Tokenizer
    runner: Runner
    bos_id: int
    eos_id: int
    is_recurrent: bool

    def run(self, requests: dict[int, GenerationRequest], seed: int) -> Arrivals:
        commands: list[Command] = [Submit(number, request, 0.0) for number, request in requests.items()]
        arrivals = Arrivals(commands, seed)
        scheduler = Scheduler(
            slots=SLOTS, max_prefill=8, bos_id=self.bos_id, eos_id=self.eos_id, is_recurrent=self.is_recurrent
        )
        EngineLoop(scheduler, self.runner, arrivals).run()
        return arrivals


@pytest.fixture(scope="module", params=["embedded", "ssru", "shortlist"])
def engine(request: pytest.FixtureRequest) -> Engine:
    if shutil.which("c++") is None:
        pytest.skip("without the C++ operators int8 is equal but for rounding")
    assert kernels.load()
    model = load_model(EMBEDDED_MODEL, MODES["int8"].dtype)
    if request.param != "embedded":
        model = random_model(model.config.model_copy(update={"decoder_memory": "ssru", "encoder_layers": 2}))
    config = model.config
    shortlist = random_shortlist(config, most=200) if request.param == "shortlist" else None
    runner = MODES["int8"].build_runner(model, SLOTS, config.max_positions, shortlist)
    return Engine(load_tokenizer(EMBEDDED_MODEL), runner, config.bos_id, config.eos_id, config.decoder_memory == "ssru")


@pytest.fixture(scope="module")
def requests(engine: Engine) -> dict[int, GenerationRequest]:
    """Every way to decode, in turn."""
    prefix = engine.tokenizer.encode("Les gens de")[:-1]
    kinds = [
        generation_request([], LIMIT),
        generation_request([], LIMIT, beam=Beam(4, alternatives=3), alignment=True, self_attention=True),
        generation_request([], LIMIT, Sampling(1.0, 20, 0.9, 5), alignment=True, self_attention=True),
        generation_request([], LIMIT, beam=Beam(3, 0.6), constraints=Constraints(1.2, 3)),
        generation_request([], LIMIT, candidates=3),
        generation_request([], LIMIT, forced_ids=prefix),
        generation_request([], LIMIT, beam=Beam(2), forced_ids=prefix),
        generation_request([], LIMIT, beam=Beam(4, alternatives=3)),
    ]
    sources = [engine.tokenizer.encode(text) for text in SENTENCES[:: len(SENTENCES) // 33]]
    return {number: changed(kinds[number % len(kinds)], source_ids=source) for number, source in enumerate(sources)}


def test_alone_and_in_company(engine: Engine, requests: dict[int, GenerationRequest]) -> None:
    """Ids, log-probabilities, alternatives, candidates, alignments and self-attention."""
    first, second = engine.run(requests, seed=1), engine.run(dict(reversed(requests.items())), seed=2)
    assert max(first.slots_used) > SLOTS - 4
    for number, request in requests.items():
        alone = engine.run({number: request}, seed=0)
        assert alone.reports[number] == first.reports[number] == second.reports[number]


@pytest.mark.parametrize("with_beams", [True, False])
def test_a_block_has_the_steps_that_would_have_followed(
    engine: Engine,
    requests: dict[int, GenerationRequest],
    monkeypatch: pytest.MonkeyPatch,
    *,
    with_beams: bool,
) -> None:
    """Plain requests, greedy and sampled, end within blocks; beams run beside them, and beside other beams."""
    beams = [Beam(), Beam(4, alternatives=3), Beam(3, 0.6), Beam(7)] if with_beams else [Beam()]
    samplings = [Sampling(), Sampling(1.0, seed=5), Sampling(0.8, 20, seed=6), Sampling(1.0, 0, 0.9, 7)]
    chosen = {}
    for number, request in requests.items():
        beam = beams[number % len(beams)]
        sampling = samplings[number // 4 % 4] if beam.size == 1 else Sampling()
        chosen[number] = generation_request(request.prompt.source_ids, LIMIT, sampling, beam=beam)
        if number == 7 + 16 * (not with_beams):
            break
    runs = []
    for block in (ONE_STEP, Block(5, math.inf), Block(16, math.inf)):
        monkeypatch.setattr(loop, "LONG_BLOCK", block)
        monkeypatch.setattr(loop, "SHORT_BLOCK", block)
        runs.append(engine.run(chosen, seed=1))
    assert runs[0].reports == runs[1].reports == runs[2].reports
    assert len(runs[2].slots_used) < len(runs[1].slots_used) < len(runs[0].slots_used)


def test_from_a_second_engine(engine: Engine, requests: dict[int, GenerationRequest]) -> None:
    """The rest is the same wherever the first engine died, and whatever else the second one generates."""
    whole = engine.run(requests, seed=1)
    generator = random.Random(0)
    for _ in range(2):
        sent = {number: generator.randrange(len(ids)) for number, ids in whole.tokens.items()}
        continued = {number: _continued(requests[number], whole.tokens[number], sent[number]) for number in sent}
        rest = engine.run(continued, seed=3)
        for number, count in sent.items():
            assert rest.reports[number] == whole.reports[number][count:]


def _continued(request: GenerationRequest, ids: list[int], sent: int) -> GenerationRequest:
    generation = Generation(request)
    for token in ids[:sent]:
        generation.deliver(TokenReport(0, token, 0.0))
    return generation.continuation()


@pytest.mark.parametrize("inspect", [{}, {"alignment": True, "candidates": 2}])
def test_any_draft_gives_the_same_bits(engine: Engine, inspect: dict[str, Any]) -> None:
    """Greedy and sampled, from the start and behind a forced prefix, together and alone."""
    generator = random.Random(3)
    sources = [engine.tokenizer.encode(text) for text in SENTENCES[:: len(SENTENCES) // 16]]
    plain = {
        number: generation_request(
            source, LIMIT, Sampling(1.0, 20, 0.9, 5) if number % 3 == 2 else Sampling(), **inspect
        )
        for number, source in enumerate(sources)
    }
    whole = engine.run(plain, seed=1)
    for kind in DRAFTS:
        drafted = {}
        for number, request in plain.items():
            ids = whole.tokens[number]
            forced = ids[: generator.randrange(len(ids)) * (number % 2)]
            draft = DRAFTS[kind](ids[len(forced) :], whole.tokens[(number + 1) % len(sources)], generator)
            drafted[number] = changed(request, forced_ids=forced, sent_ids=forced, draft=draft)
        together = engine.run(drafted, seed=2)
        for number, request in drafted.items():
            rest = whole.reports[number][len(request.constraints.forced_ids) :]
            assert together.reports[number] == rest, kind
            assert number % 4 or engine.run({number: request}, seed=0).reports[number] == rest, kind
        if kind == "right":
            assert len(set().union(*together.moments.values())) < len(sources), "whole drafts take a step each at most"
