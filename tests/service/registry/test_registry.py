"""Models removed at a bad moment, tested with engines that never finish starting."""

import asyncio
from pathlib import Path
from typing import Never

import pytest

from model.checkpoint_config import CheckpointConfig, CheckpointError, Direction
from model.config import ModelConfig
from model.tokenizer import Tokenizer
from service.engine.messages import EngineOptions
from service.errors import EngineFailed
from service.registry.memory_budget import MemoryBudget
from service.registry.model_version import ModelVersion, State
from service.registry.registry import ModelRegistry
from service.registry.scan import FoundModel
from service.registry.served_model import ServedModel
from service.supervisor.engine_process import EngineProcess
from service.supervisor.engine_requests import EngineObserver
from service.supervisor.fork_server import ForkServer
from service.supervisor.pool import EnginePool
from tests.generation_requests import generation_request


def _build_nothing(found: FoundModel, path: Path) -> Never:
    raise AssertionError


@pytest.fixture
def starts_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "engine"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(program))


@pytest.fixture
def library(config: ModelConfig, tokenizer: Tokenizer, starts_for_ever: None) -> ModelRegistry:
    """A library of one model, which is unloaded."""
    found = FoundModel("a", Path("a"), "")
    options = EngineOptions(checkpoint="any", mode="fp32", threads=1, slots=1, max_prefill=1, max_length=48)
    engine = EngineProcess(ForkServer(options), 0, EngineObserver())
    pool = EnginePool([engine], capacity=9, request_load=lambda: made.request_load(found))
    checkpoint = CheckpointConfig(directions=(Direction(source="en", target="fr"),), model=config)
    model = ServedModel("a", checkpoint, tokenizer, pool)
    version = ModelVersion(found, State.UNLOADED, None, model, True)
    made = ModelRegistry([version], _build_nothing, MemoryBudget(None))
    return made


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        ([State.LOADING, State.FAILED], "the model is being loaded"),
        ([State.READY], "the model is being loaded"),  # its engines are, again
        ([State.FAILED, State.UNLOADING], "no model can be used: see /models"),
        ([], "there is no model"),
    ],
)
def test_the_reason_for_not_ready_tells_whether_to_wait(tmp_path: Path, states: list[State], reason: str) -> None:
    versions = [ModelVersion(FoundModel(str(number), tmp_path, ""), state) for number, state in enumerate(states)]
    library = ModelRegistry(versions, _build_nothing, MemoryBudget(None))
    assert not library.ready
    assert library.why_not_ready == reason


@pytest.mark.parametrize(("failure", "passes"), [(OSError("no space"), True), (CheckpointError("bad"), False)])
async def test_a_language_whose_model_is_loaded_again_is_missing_for_a_while(
    library: ModelRegistry, failure: Exception, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    [version] = library.versions

    async def fail(version: ModelVersion) -> None:
        raise failure

    monkeypatch.setattr(library._loader, "load", fail)
    await library._introduce(version, 100.0)
    expected = f"a cannot be used now: {failure}" if passes else None
    assert [library.why_not_now(each) for each in ("EN", "fr-CA", "de")] == [expected, expected, None]
    version.model = None  # its files could not even be read
    assert library.why_not_now("de") == expected
    version.offer()
    assert library.why_not_now("fr") is None
    await library.stop()


async def test_a_model_and_its_request_removed_during_the_load(library: ModelRegistry) -> None:
    """Other models can be loaded afterwards, and the model is removed once."""
    [version] = library.versions
    model = version.model
    assert model is not None
    model.acquire("a request")
    generation = model.pool.submit(generation_request([5, 2], 3))
    async with asyncio.timeout(20):
        while model.pool.zygote_pid is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert version.state is State.LOADING
        library._retire_all([version])
        library._retire_all([version])
        await asyncio.sleep(0)  # it waits for the request now
        generation.close()
        model.release("a request")
        await asyncio.gather(*library._tasks, return_exceptions=True)
    assert library.versions == []
    assert not library._loader._loading.locked()
    assert model.pool.parent_pid is model.pool.zygote_pid is None


async def test_a_stopped_start_fails_its_waiters_with_the_reason(library: ModelRegistry) -> None:
    [version] = library.versions
    assert version.model is not None
    pool = version.model.pool
    pool.start()
    waiting = asyncio.create_task(pool.wait_until_started())
    await asyncio.sleep(0)
    await pool.stop("it was taken away")
    with pytest.raises(EngineFailed, match="it was taken away"):
        async with asyncio.timeout(5):
            await waiting
