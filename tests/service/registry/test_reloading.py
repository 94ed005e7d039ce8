"""Models whose loading fails, tested with engines that never answer."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from model.checkpoint_config import CheckpointError, load_config
from model.tokenizer import Tokenizer
from service.errors import EngineFailed
from service.registry.loading import UNEXPECTED
from service.registry.memory_budget import MemoryBudget
from service.registry.model_version import ModelVersion
from service.registry.registry import ModelRegistry
from service.registry.scan import FoundModel
from service.registry.served_model import ServedModel
from service.settings import EMBEDDED_MODEL
from service.supervisor.generation import Reader
from service.supervisor.pool import EnginePool
from tests.service.supervisor.test_pool import REQUEST, Replica


class Engine(Replica):
    def start(self, on_change: Callable[[], None] | None = None) -> None: ...


class Model(ServedModel):
    """A model whose next loads fail with these errors; later ones succeed."""

    library: ModelRegistry
    found: FoundModel

    def __init__(self, tokenizer: Tokenizer, *failures: Exception) -> None:
        pool = EnginePool([Engine()], 100, request_load=lambda: self.library.request_load(self.found))
        super().__init__("a", load_config(EMBEDDED_MODEL), tokenizer, pool)
        self.failures = [*failures]
        self.loaded = asyncio.Event()

    async def load(self) -> None:
        self.pool.start()
        if self.failures:
            raise self.failures.pop(0)
        self.loaded.set()


def _never_built(*_: object) -> ServedModel:
    raise AssertionError("nothing is built here")


def _library(*models: Model) -> ModelRegistry:
    for number, each in enumerate(models):
        each.found = FoundModel(str(number), Path(str(number)), "")
    library = ModelRegistry([ModelVersion(each.found, model=each) for each in models], _never_built, MemoryBudget())
    for each in models:
        each.library = library
    return library


async def _failed(reader: Reader) -> str:
    with pytest.raises(EngineFailed) as failed:
        await reader.read_tokens(asyncio.get_running_loop().time() + 60)
    return failed.value.message


@pytest.mark.parametrize("error", [EngineFailed("killed"), OSError("killed")], ids=["engine", "system"])
async def test_a_model_that_could_not_be_reloaded_is_tried_again_for_the_next_request(
    tokenizer: Tokenizer, error: Exception
) -> None:
    model = Model(tokenizer)
    library = _library(model)
    [version] = library.versions
    library.start()
    await library.wait_until_tried()
    await model.pool.stop()
    model.failures, model.loaded = [error], asyncio.Event()

    assert "killed" in await _failed(model.pool.submit(REQUEST))
    assert (version.state, version.offered, version.reason) == ("unloaded", True, "killed")
    model.pool.submit(REQUEST)
    await model.loaded.wait()
    assert version.task is not None
    await version.task
    assert (version.state, version.reason) == ("ready", None)
    assert model.pool.load == 1
    await library.stop()


async def test_a_request_during_the_stop_of_a_failed_load_gets_another_load(tokenizer: Tokenizer) -> None:
    model = Model(tokenizer)
    library = _library(model)
    library.start()
    await library.wait_until_tried()
    await model.pool.stop()
    model.failures, model.loaded = [EngineFailed("killed")], asyncio.Event()
    first = model.pool.submit(REQUEST)
    while model.failures or model.pool.running:  # noqa: ASYNC110
        await asyncio.sleep(0)
    model.pool.submit(REQUEST)
    assert await _failed(first) == "killed"
    await model.loaded.wait()
    assert model.pool.load == 1
    await library.stop()


async def test_only_errors_in_the_files_are_permanent(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.registry.registry._FIRST_RETRY_SECONDS", 0.0)
    whole, broken = Model(tokenizer), Model(tokenizer, CheckpointError("no weights"))
    passing = Model(tokenizer, EngineFailed("killed"), OSError("no memory"))
    library = _library(whole, broken, passing)
    library.start()
    await library.wait_until_tried()
    await passing.loaded.wait()
    await asyncio.sleep(0)
    assert [version.state for version in library.versions] == ["ready", "failed", "ready"]
    assert [version.offered for version in library.versions] == [True, False, True]
    assert [version.reason for version in library.versions] == [None, "no weights", None]
    await library.stop()


async def test_an_unexpected_error_is_reported_and_the_next_request_tries_again(
    tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    whole, broken = Model(tokenizer), Model(tokenizer, ZeroDivisionError("by chance"))
    library = _library(whole, broken)
    library.start()
    await library.wait_until_tried()
    assert [(each.state, each.reason) for each in library.versions] == [("ready", None), ("failed", UNEXPECTED)]
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError]

    await whole.pool.stop()
    whole.failures, whole.loaded = [ZeroDivisionError("by chance")], asyncio.Event()
    assert await _failed(whole.pool.submit(REQUEST)) == UNEXPECTED
    assert len([record for record in caplog.records if record.exc_info]) == 2
    whole.pool.submit(REQUEST)
    await whole.loaded.wait()
    await library.stop()


async def test_the_directory_is_followed_after_an_unexpected_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scanned = asyncio.Event()
    errors: list[Exception] = [ZeroDivisionError("by chance")]

    def scan(directory: Path) -> dict[str, FoundModel]:
        if errors:
            raise errors.pop()
        loop.call_soon_threadsafe(scanned.set)
        return {}

    loop = asyncio.get_running_loop()
    monkeypatch.setattr("service.registry.scan.scan", scan)
    monkeypatch.setattr("service.registry.registry.POLL_SECONDS", 0.0)
    library = ModelRegistry([], _never_built, MemoryBudget(), directory=tmp_path)
    library.start()
    async with asyncio.timeout(20):
        await scanned.wait()
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError]
    await library.stop()
