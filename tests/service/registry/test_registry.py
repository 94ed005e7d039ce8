"""Models that are taken away at a bad moment, with engines that only begin to start."""

import asyncio
from pathlib import Path
from typing import Never

import pytest

from model.checkpoint_config import CheckpointConfig, Direction
from model.config import ModelConfig
from model.tokenizer import Tokenizer
from service.engine.messages import EngineOptions, GenerationRequest
from service.errors import EngineFailed
from service.registry.entry import Entry, State
from service.registry.memory_budget import Room
from service.registry.registry import Library
from service.registry.scan import Found
from service.registry.served_model import ServedModel
from service.supervisor.engine_process import EngineObserver, EngineProcess
from service.supervisor.fork_server import ForkServer
from service.supervisor.pool import EnginePool


def _build_nothing(found: Found, path: Path) -> Never:
    raise AssertionError


@pytest.fixture
def starts_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "engine"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(program))


@pytest.fixture
def entry(config: ModelConfig, tokenizer: Tokenizer, starts_for_ever: None) -> Entry:
    options = EngineOptions(checkpoint="any", mode="fp32", threads=1, slots=1, max_prefill=1, max_length=48)
    pool = EnginePool([EngineProcess(ForkServer(options), 0, EngineObserver())], capacity=9)
    checkpoint = CheckpointConfig(directions=(Direction(source="en", target="fr"),), model=config)
    model = ServedModel("a", checkpoint, tokenizer, pool)
    return Entry(Found("a", Path("a"), ""), State.UNLOADED, None, model, True)


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        ([State.LOADING, State.FAILED], "the model is being loaded"),
        ([State.READY], "the model is being loaded"),  # its engines are, again
        ([State.FAILED, State.UNLOADING], "no model can be used: see /models"),
        ([], "there is no model"),
    ],
)
def test_who_finds_nothing_ready_is_told_whether_to_wait(tmp_path: Path, states: list[State], reason: str) -> None:
    entries = [Entry(Found(str(number), tmp_path, ""), state) for number, state in enumerate(states)]
    library = Library(entries, _build_nothing, Room(None))
    assert not library.ready
    assert library.why_not_ready == reason


async def test_a_model_that_goes_while_it_is_loaded_for_a_request_that_goes(entry: Entry) -> None:
    """Others can be loaded afterwards, and it is taken away once."""
    model = entry.model
    assert model is not None
    library = Library([entry], _build_nothing, Room(None))
    model.on_demand = lambda: library._bring_back(entry)
    model.acquire("a request")
    generation = model.submit(GenerationRequest([5, 2], 3))
    async with asyncio.timeout(20):
        while model.pool.parent_pid is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert entry.state is State.LOADING
        library._forget([entry])
        library._forget([entry])
        await asyncio.sleep(0)  # it waits for the request now
        generation.close()
        model.release("a request")
        await asyncio.gather(*library._tasks, return_exceptions=True)
    assert library.entries == []
    assert not library._loading.locked()
    assert model.pool.parent_pid is None


async def test_who_waits_for_a_start_that_is_stopped_is_told(entry: Entry) -> None:
    assert entry.model is not None
    pool = entry.model.pool
    pool.start()
    waiting = asyncio.create_task(pool.wait_until_started())
    await asyncio.sleep(0)
    await pool.stop("it was taken away")
    with pytest.raises(EngineFailed, match="it was taken away"):
        async with asyncio.timeout(5):
            await waiting
