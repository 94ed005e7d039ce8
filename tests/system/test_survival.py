"""Streams outlive their engine whatever they decode with, and an engine that hangs is as good as dead."""

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from service.settings import EMBEDDED_MODEL
from tests.system.conftest import ENGINE_TIMEOUT, Server, StartServer, shared_server
from tests.system.sentences import SENTENCES
from tests.system.sse import Event, stream, text_of
from tests.waiting import until

KINDS: list[dict[str, object]] = [
    {},
    {"beam_size": 4, "alternatives": 2},
    {"temperature": 0.8, "seed": 3},
    {"no_repeat_ngram_size": 3, "top_candidates": 2},
    {"self_attention": True},
    {"self_attention": True, "beam_size": 3},
    {"attention": True, "glossary": {"dog": "toutou"}},
    {"hypotheses": True, "alignment": True, "beam_size": 3},
]


def _outlines(events: list[Event]) -> list[tuple[str, object]]:
    return [(each.name, _outline(each.data)) for each in events if each.name in ("token", "hypotheses", "segment")]


def _outline(data: object) -> object:
    """All but the values of log-probabilities and weights; how many there are counts."""
    if isinstance(data, dict):
        return {key: _outline(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_outline(value) for value in data]
    return float if isinstance(data, float) else data


# Its engine may be lost; it has another one afterwards.
server = shared_server("--slots", "16", constants={ENGINE_TIMEOUT: 3.0})


async def test_every_kind_of_stream_survives(server: Server) -> None:
    """The engine dies or stops: the stream pauses, then goes on with the same events, and none comes twice."""
    async with server.client() as client:
        work = [(" ".join(SENTENCES[i * 10 : i * 10 + 30]), kind) for i, kind in enumerate(KINDS)]
        expected = [await stream(client, text, **options) for text, options in work]
        for restarts, how in enumerate((signal.SIGKILL, signal.SIGSTOP), start=1):
            running = [asyncio.create_task(stream(client, text, **options)) for text, options in work]
            await asyncio.to_thread(server.wait_until_busy)
            [engine] = server.engine_pids()
            os.kill(engine, how)
            for events, whole in zip(await asyncio.gather(*running), expected, strict=True):
                assert events[-1].name == "done"
                assert [event.id for event in events] == list(range(len(events)))
                assert text_of(events) == events[-1].data["translatedText"]
                assert _outlines(events) == _outlines(whole)
                assert events[-1].data.get("alternatives") == whole[-1].data.get("alternatives")
            assert server.metric("dragoman_engine_restarts_total") == restarts
            assert server.engine_pids() != [engine]
            assert f"process {engine} was killed by signal 9: out of memory?" in server.log.read_text()
            server.wait_for_metric("dragoman_slots_used", 0)


@pytest.mark.parametrize("kind", [Server.fork_servers, Server.forking_pids])
async def test_streams_survive_the_processes_that_engines_are_forks_of(
    server: Server, kind: Callable[[Server], list[int]]
) -> None:
    """Alone, its loss is not noticed; with an engine's, the pause is longer."""
    async with server.client() as client:
        texts = [" ".join((SENTENCES * 2)[i * 10 : i * 10 + 80]) for i in range(4)]
        expected = [_outlines(await stream(client, text)) for text in texts]
        for how in (signal.SIGKILL, signal.SIGSTOP):
            restarts = server.metric("dragoman_engine_restarts_total")
            [engine], lost = server.engine_pids(), kind(server)
            for pid in lost:
                os.kill(pid, how)
            assert [_outlines(await stream(client, text)) for text in texts] == expected
            assert server.metric("dragoman_engine_restarts_total") == restarts
            running = [asyncio.create_task(stream(client, text)) for text in texts]
            await asyncio.to_thread(server.wait_until_busy)
            os.kill(engine, signal.SIGKILL)
            assert [_outlines(events) for events in await asyncio.gather(*running)] == expected
            await until(lambda: set(kind(server)).isdisjoint(lost))  # noqa: B023


def test_an_engine_that_cannot_start_again_is_tried_ever_more_rarely(start_server: StartServer, tmp_path: Path) -> None:
    """The server is not ready meanwhile, for load balancers, and goes on as soon as it can."""
    model = shutil.copytree(EMBEDDED_MODEL, tmp_path / "model")
    weights = model / "model.safetensors"
    whole = weights.read_bytes()
    with start_server("--model", str(model)) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        weights.write_bytes(whole[:-1000])
        engine = server.wait_for_engine()
        for pid in (*server.fork_servers(), engine):
            os.kill(pid, signal.SIGKILL)
        server.wait_for_metric("dragoman_engine_restarts_total", 3, seconds=60)
        assert client.get("/readyz").status_code == 503
        refused = client.post("/translate", json={"q": "I see a cat.", "source": "en", "target": "fr"})
        assert (refused.status_code, refused.json()["code"]) == (503, "not_ready")
        weights.write_bytes(whole)
        server.wait_until_ready()
        answer = client.post("/translate", json={"q": "I see a cat.", "source": "en", "target": "fr"})
        assert answer.json() == {"translatedText": "Je vois un chat."}
        lines = [json.loads(line) for line in server.log.read_text().splitlines()]
        waits = [line["backoff_seconds"] for line in lines if "backoff_seconds" in line]
        assert waits[:3] == [0.1, 0.2, 0.4]
