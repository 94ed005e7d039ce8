"""The speed of the HTTP process: its engines translate as they should, and the command prints figures."""

import json

import pytest

from loadtest.host.null_runner import NullRunner
from service.engine.generation_request import Sampling
from service.engine.loop import EngineLoop
from service.engine.messages import Submit
from service.engine.scheduler import Scheduler
from tests.generation_requests import generation_request
from tests.loadtest.commands import run
from tests.parity.engine import Arrivals

EOS = 2


def test_a_translation_has_as_many_tokens_as_its_source() -> None:
    lengths = [1, 5, 40, 17]
    sampled = Sampling(1.0, seed=3)
    requests = [generation_request([9] * (length - 1) + [EOS], 80, sampled) for length in lengths]
    arrivals = Arrivals([Submit(number, request, 0.0) for number, request in enumerate(requests)], seed=1)
    scheduler = Scheduler(slots=3, max_prefill=2, bos_id=1, eos_id=EOS)
    EngineLoop(scheduler, NullRunner(1000, EOS), arrivals).run()
    assert [len(arrivals.tokens[number]) for number in range(4)] == lengths
    assert [ids.index(EOS) + 1 for ids in arrivals.tokens.values()] == [len(ids) for ids in arrivals.tokens.values()]


@pytest.mark.slow
def test_the_command_prints_a_speed_for_each_number_of_rows() -> None:
    lines = run("loadtest.host", "--rows", "1,32", "--rounds", "1", "--seconds", "0.5").splitlines()
    speeds = [json.loads(line) for line in lines]
    assert [speed["rows"] for speed in speeds] == [1, 32]
    # Engines that compute would not reach it with one row.
    assert all(speed["single_sentences"] > 1000 and speed["long_texts"] > 1000 for speed in speeds)


@pytest.mark.slow
def test_costs_add_up() -> None:
    seen = json.loads(run("loadtest.costs", "--requests", "60", "--in-flight", "8", "--", "--replicas", "1"))
    assert seen["generated_tokens"] > 60
    both = seen["http_core_seconds"] + seen["engine_core_seconds"]
    assert seen["core_seconds_per_million_characters"] == pytest.approx(1e6 * both / seen["characters"], rel=0.2)
