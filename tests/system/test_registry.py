"""Models that come, change and go while others are translated."""

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import torch
from safetensors.torch import save_file

from model.tokenizer import Tokenizer
from service.settings import EMBEDDED_MODEL
from tests.system.conftest import POLL, Server, StartServer
from tests.system.models import write_model
from tests.system.sentences import LONG_TEXT
from tests.system.sse import Event, read_events, text_of
from tests.waiting import until, wait_for

OFTEN = {POLL: 0.1}


def _list(server: Server) -> list[dict[str, Any]]:
    models: list[dict[str, Any]] = httpx.get(f"{server.url}/models").json()
    return models


def _models(server: Server) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in _list(server)}


def _wait_for(server: Server, expected: dict[str, str]) -> None:
    """Wait until exactly these models are in these states."""

    def is_so() -> bool:
        return sorted((each["name"], each["state"]) for each in _list(server)) == sorted(expected.items())

    wait_for(is_so, otherwise=lambda: _list(server))


def _translated(server: Server, q: str, source: str, target: str, **options: object) -> str:
    text: str = server.translated(q, source, target, **options)["translatedText"]
    return text


def _targets(server: Server) -> dict[str, list[str]]:
    return {each["code"]: each["targets"] for each in httpx.get(f"{server.url}/languages").json()}


class Reader:
    """Reads a stream of the book in the background."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.events: list[Event] = []

    async def read(self) -> None:
        body = {"q": LONG_TEXT, "source": "en", "target": "fr", "stream": True}
        async with (
            httpx.AsyncClient(timeout=60.0) as client,
            client.stream("POST", f"{self._server.url}/translate", json=body) as response,
        ):
            async for event in read_events(response):
                self.events.append(event)
                # Slower than the engine: it is still reading when its model goes.
                await asyncio.sleep(0.001)


async def _begun(reader: Reader) -> asyncio.Task[None]:
    reading = asyncio.create_task(reader.read())
    await until(lambda: len(reader.events) >= 20)
    return reading


async def test_models_come_change_and_go(start_server: StartServer, tmp_path: Path, tokenizer: Tokenizer) -> None:
    directory, made = tmp_path / "models", tmp_path / "made"
    directory.mkdir()
    (directory / "en-fr").symlink_to(EMBEDDED_MODEL)
    for name, seed in (("first", 1), ("second", 2)):
        write_model(made / name, tokenizer, "de-en", seed=seed)
    with start_server("--models", str(directory), constants=OFTEN) as server:
        assert _targets(server) == {"en": ["en", "fr"], "fr": ["fr"]}
        whole = _translated(server, LONG_TEXT, "en", "fr")

        # A new one comes, broken at first.
        (directory / "de-en").mkdir()
        await asyncio.to_thread(_wait_for, server, {"de-en": "failed", "en-fr": "ready"})
        assert "it has no config.json" in _models(server)["de-en"]["reason"]
        shutil.copytree(made / "first", directory / "de-en", dirs_exist_ok=True)
        await asyncio.to_thread(_wait_for, server, {"de-en": "ready", "en-fr": "ready"})
        assert _targets(server) == {"de": ["de", "en", "fr"], "en": ["en", "fr"], "fr": ["fr"]}
        assert _models(server)["de-en"]["memory_bytes"] > 500_000

        # It is replaced while it is asked all the time.
        before = _translated(server, "die Katze", "de", "en", max_new_tokens=8)
        answers: list[str] = []
        replaced = asyncio.Event()

        async def ask() -> None:
            while not replaced.is_set():
                answers.append(await asyncio.to_thread(_translated, server, "die Katze", "de", "en", max_new_tokens=8))

        asking = asyncio.create_task(ask())
        shutil.move(directory / "de-en", tmp_path / "old")
        shutil.copytree(made / "second", directory / "de-en")
        await until(lambda: answers and answers[-1] != before)
        replaced.set()
        await asking
        assert set(answers) == {before, answers[-1]}, "of one model or of the other"
        await asyncio.to_thread(_wait_for, server, {"de-en": "ready", "en-fr": "ready"})
        assert len(server.engine_pids()) == 2

        # Another one goes in the middle of a book.
        reader = Reader(server)
        reading = await _begun(reader)
        (directory / "en-fr").unlink()
        await until(lambda: "fr" not in str(_targets(server)))
        assert server.ask("The cat.", "en", "fr").status_code == 400
        assert not reading.done()
        assert _models(server)["en-fr"]["state"] == "unloading"
        await reading
        assert text_of(reader.events) == whole
        await asyncio.to_thread(_wait_for, server, {"de-en": "ready"})
        assert len(server.engine_pids()) == 1
        assert "dragoman_build_info" in server.scrape()
        assert 'directions="en-fr"' not in server.scrape()


def test_models_give_way_to_one_another(start_server: StartServer, tmp_path: Path, tokenizer: Tokenizer) -> None:
    directory = tmp_path / "models"
    for name, directions, seed in (("a", "de-en", 1), ("b", "en-it", 2), ("c", "fr-en", 3)):
        write_model(directory / name, tokenizer, directions, seed=seed, ffn_dim=65_536)
    write_model(directory / "large", tokenizer, "de-fr", seed=4)
    save_file({"weight": torch.zeros(40_000_000, dtype=torch.int8)}, directory / "large" / "model.safetensors")
    flags = ("--models", str(directory), "--mode", "fp32", "--max-models-memory-mb", "150")
    with start_server(*flags, constants=OFTEN) as server:
        states = {"a": "ready", "b": "unloaded", "c": "unloaded", "large": "failed"}
        _wait_for(server, states)
        assert "max_models_memory_mb is 150" in _models(server)["large"]["reason"]
        assert _models(server)["a"]["memory_bytes"] > 60_000_000 > _models(server)["b"]["memory_bytes"] == 0
        offered = {"de": ["de", "en", "it"], "en": ["en", "it"], "fr": ["en", "fr", "it"], "it": ["it"]}
        assert _targets(server) == offered, "all of them"

        german = _translated(server, "die Katze", "de", "en")
        assert server.ask("the cat", "en", "it", timeout_seconds=0.1).status_code == 504, "it is not loaded"
        italian = _translated(server, "the cat", "en", "it")
        _wait_for(server, states | {"a": "unloaded", "b": "ready"})

        # Several at once take turns, and two for one translation too, though there is room for one.
        with ThreadPoolExecutor() as pool:
            requests = [("die Katze", "de", "en"), ("the cat", "en", "it"), ("die Katze", "de", "it")]
            asked = [pool.submit(_translated, server, *each) for each in requests]
            assert [each.result() for each in asked] == [german, italian, _translated(server, german, "en", "it")]
        assert len(server.engine_pids()) == 1
        assert httpx.get(f"{server.url}/readyz").status_code == 200
