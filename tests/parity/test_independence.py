"""int8, with the embedded model and an SSRU: a request gets the same bits alone, in company, from a second engine."""

import random
import shutil
from dataclasses import dataclass

import pytest

from model import kernels
from model.checkpoint import load_model
from model.checkpoint_config import load_tokenizer
from model.tokenizer import Tokenizer
from service.engine.loop import EngineLoop
from service.engine.messages import Beam, Command, Constraints, GenerationRequest, Sampling, Submit, TokenReport
from service.engine.modes import MODES
from service.engine.runner import Runner
from service.engine.scheduler import Scheduler
from service.settings import EMBEDDED_MODEL
from service.supervisor.generation import Generation
from tests.conftest import random_model
from tests.generation_requests import changed, generation_request
from tests.parity.engine import Arrivals
from tests.system.sentences import SENTENCES

SLOTS = 40
LIMIT = 60


@dataclass
class Engine:
    tokenizer: Tokenizer
    runner: Runner
    bos_id: int
    eos_id: int

    def run(self, requests: dict[int, GenerationRequest], seed: int) -> Arrivals:
        commands: list[Command] = [Submit(number, request, 0.0) for number, request in requests.items()]
        arrivals = Arrivals(commands, seed)
        scheduler = Scheduler(slots=SLOTS, max_prefill=8, eos_id=self.eos_id)
        EngineLoop(scheduler, self.runner, arrivals, self.bos_id).run()
        return arrivals


@pytest.fixture(scope="module", params=["embedded", "ssru"])
def engine(request: pytest.FixtureRequest) -> Engine:
    if shutil.which("c++") is None:
        pytest.skip("without the C++ operators int8 is equal but for rounding")
    assert kernels.load()
    model = load_model(EMBEDDED_MODEL, MODES["int8"].dtype)
    if request.param == "ssru":
        model = random_model(model.config.model_copy(update={"decoder_memory": "ssru", "encoder_layers": 2}))
    config = model.config
    runner = MODES["int8"].build_runner(model, SLOTS, config.max_positions)
    return Engine(load_tokenizer(EMBEDDED_MODEL), runner, config.bos_id, config.eos_id)


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
    sources = [engine.tokenizer.encode(text) for text in SENTENCES[:: len(SENTENCES) // 49]]
    return {number: changed(kinds[number % len(kinds)], source_ids=source) for number, source in enumerate(sources)}


def test_alone_and_in_company(engine: Engine, requests: dict[int, GenerationRequest]) -> None:
    """Ids, log-probabilities, alternatives, candidates, alignments and self-attention."""
    first, second = engine.run(requests, seed=1), engine.run(dict(reversed(requests.items())), seed=2)
    assert max(first.slots_used) > SLOTS - 4
    for number, request in requests.items():
        alone = engine.run({number: request}, seed=0)
        assert alone.reports[number] == first.reports[number] == second.reports[number]


def test_steps_ahead_are_those_that_would_have_followed(
    engine: Engine, requests: dict[int, GenerationRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beams run beside other beams, and beside greedy requests."""
    plain = [Beam(), Beam(4, alternatives=3), Beam(3, 0.6), Beam(7)]
    chosen = {
        number: generation_request(request.prompt.source_ids, LIMIT, beam=plain[number % 4])
        for number, request in requests.items()
        if number < 8
    }
    runs = []
    for seconds in (0.0, 60.0):
        monkeypatch.setattr("service.engine.cpp_runner._MULTI_STEP_SECONDS", seconds)
        runs.append(engine.run(chosen, seed=1))
    assert runs[0].reports == runs[1].reports
    assert len(runs[1].slots_used) < len(runs[0].slots_used)


def test_from_a_second_engine(engine: Engine, requests: dict[int, GenerationRequest]) -> None:
    """The rest is the same wherever the first engine died, and whatever else the second one generates."""
    whole = engine.run(requests, seed=1)
    generator = random.Random(0)
    for _ in range(3):
        sent = {number: generator.randrange(len(ids)) for number, ids in whole.tokens.items()}
        continued = {number: _continued(requests[number], whole.tokens[number], sent[number]) for number in sent}
        rest = engine.run(continued, seed=3)
        for number, count in sent.items():
            assert rest.reports[number] == whole.reports[number][count:]


def _continued(request: GenerationRequest, ids: list[int], sent: int) -> GenerationRequest:
    generation = Generation(0, request, lambda _: None)
    for token in ids[:sent]:
        generation.deliver(TokenReport(0, token, 0.0))
    return generation.continuation()
