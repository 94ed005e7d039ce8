"""No request is refused or lost while engines are replaced, and only the cause of a death fails."""

import asyncio
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import httpx
import pytest

from service.settings import EMBEDDED_MODEL
from tests.system.conftest import Server, StartServer, run_server
from tests.system.sentences import SENTENCES
from tests.system.sse import Event, read_events, stream, text_of
from tests.waiting import until

_POISON_SEED: Final = 666
_POISON: Final = f"""\
import os, signal, sys

if "service.engine" in sys.orig_argv:
    from service.engine import loop

    encode = loop.source_batch

    def poisoned(admitted):
        if any(each.request.search.sampling.seed == {_POISON_SEED} for each in admitted):
            os.kill(os.getpid(), signal.SIGKILL)
        return encode(admitted)

    loop.source_batch = poisoned
"""
"""Run by Python at the start of an engine process: requests with this seed kill it in the step that admits them."""

KINDS: Final[list[dict[str, object]]] = [
    {},
    {"beam_size": 4, "alternatives": 2},
    {"temperature": 0.8, "seed": 3},
    {"glossary": {"dog": "toutou"}},
    {"format": "html"},
    {"attention": True, "top_candidates": 2},
]

Work = Sequence[tuple[str, dict[str, object]]]


def _work(streams: int, sentences: int) -> Work:
    """One text for each stream, of every kind in turn."""
    texts = (" ".join((SENTENCES * 3)[i * 3 : i * 3 + sentences]) for i in range(streams))
    work = [(text, KINDS[number % len(KINDS)]) for number, text in enumerate(texts)]
    return [(f"<p>{text}</p>" if kind.get("format") else text, kind) for text, kind in work]


class Damaged(NamedTuple):
    """A server whose processes and files are damaged, and repaired afterwards. One request is poison for engines."""

    server: Server
    model: Path


def _damaged(directory: Path, *flags: str) -> Iterator[Damaged]:
    model = shutil.copytree(EMBEDDED_MODEL, directory / "model")
    (directory / "site").mkdir()
    (directory / "site" / "sitecustomize.py").write_text(_POISON)
    environment = {"PYTHONPATH": os.pathsep.join([str(directory / "site"), os.environ.get("PYTHONPATH", "")])}
    with run_server(directory / "log", "--model", str(model), *flags, environment=environment) as server:
        yield Damaged(server, model)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    yield from _damaged(tmp_path_factory.mktemp("one"))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    yield from _damaged(tmp_path_factory.mktemp("two"), "--replicas", "2", "--max-waiting", "10000")


async def _texts(client: httpx.AsyncClient, work: Work) -> list[object]:
    """Run all streams at once; the events of each that ended well, as far as they never change, else its end."""
    return [_outcome(events) for events in await asyncio.gather(*(stream(client, text, **how) for text, how in work))]


def _outcome(events: list[Event]) -> object:
    if events[-1].name != "done":
        return events[-1]
    assert text_of(events) == events[-1].data["translatedText"]
    return [(each.id, each.data["text"]) for each in events if each.name in ("token", "segment")]


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("rounds", "streams"),
    [(1, 8), pytest.param(3, 24, marks=[pytest.mark.slow, pytest.mark.timeout(600)])],
)
async def test_without_any_engine_streams_pause_and_new_ones_wait(two: Damaged, rounds: int, streams: int) -> None:
    """All engines and the fork server die under half of the streams, and the others begin while there is none."""
    server, work = two.server, _work(streams, sentences=20)
    early, late = work[::2], work[1::2]
    async with server.client(timeout=100) as client:
        expected = await _texts(client, early), await _texts(client, late)
        for _ in range(rounds):
            running = asyncio.create_task(_texts(client, early))
            await asyncio.to_thread(server.wait_until_busy)
            _kill([*server.forking_pids(), *server.engine_pids()])
            while (await client.get("/readyz")).status_code == 200:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            results = await asyncio.gather(running, _texts(client, late))
            assert tuple(results) == expected
    assert server.metric("dragoman_requests_total", 'endpoint="/translate",outcome="not_ready"') == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_an_engine_killed_every_other_second_loses_nothing(two: Damaged) -> None:
    server, work = two.server, _work(32, sentences=6)
    restarts = server.metric("dragoman_engine_restarts_total")
    async with server.client(timeout=100) as client:
        expected = await _texts(client, work)
        until = time.monotonic() + 40

        async def repeat(number: int) -> int:
            rounds = 0
            while time.monotonic() < until:
                [result] = await _texts(client, [work[number]])
                assert result == expected[number]
                rounds += 1
            return rounds

        streams = asyncio.gather(*(repeat(number) for number in range(len(work))))
        while time.monotonic() < until:
            await asyncio.sleep(2)
            _kill(server.engine_pids()[:1])
        assert min(await streams) > 0
    assert server.metric("dragoman_engine_restarts_total") > restarts + 6


async def test_three_deaths_in_a_row_are_nobodys_fault(one: Damaged) -> None:
    server, work = one.server, _work(12, sentences=20)
    before = server.metric("dragoman_engine_restarts_total")
    async with server.client(timeout=100) as client:
        expected = await _texts(client, work)
        running = asyncio.create_task(_texts(client, work))
        for restarts in range(3):
            await until(lambda: server.metric("dragoman_engine_restarts_total") >= before + restarts)  # noqa: B023
            await asyncio.to_thread(server.wait_until_busy)
            _kill(server.engine_pids())
        assert await running == expected
    assert server.metric("dragoman_engine_restarts_total") == before + 3


@pytest.mark.parametrize("replicas", ["one", "two"])
async def test_a_request_that_kills_engines_fails_alone(request: pytest.FixtureRequest, replicas: str) -> None:
    server = request.getfixturevalue(replicas).server
    work = _work(16, sentences=4)
    poison: tuple[str, dict[str, object]] = ("I see a cat.", {"temperature": 0.5, "seed": _POISON_SEED})
    before = server.metric("dragoman_requests_total", 'outcome="engine_failed"')
    async with server.client(timeout=100) as client:
        expected = await _texts(client, work)
        *results, failure = await _texts(client, [*work, poison])
        assert results == expected
        assert isinstance(failure, Event)
        assert failure.data["code"] == "engine_failed"
        assert "with no other request in it" in failure.data["error"]
        assert await _texts(client, work) == expected
    assert server.metric("dragoman_requests_total", 'outcome="engine_failed"') == before + 1


async def test_streams_leave_a_replica_that_is_not_back_at_once(two: Damaged) -> None:
    """The fork server does not answer for seconds, which is as long as a late back-off."""
    server, work = two.server, _work(8, sentences=20)
    await asyncio.to_thread(server.wait_for_metric, "dragoman_engine_ready", 2, seconds=60)
    async with server.client(timeout=100) as client:
        expected = await _texts(client, work)
        running = asyncio.create_task(_texts(client, work))
        await asyncio.to_thread(server.wait_until_busy)
        lost, _ = server.engine_pids()
        [fork_server] = server.fork_servers()
        os.kill(fork_server, signal.SIGSTOP)
        _kill([lost])
        assert await running == expected
    assert server.metric("dragoman_engine_ready") == 1, "all ended before the other replica was back"


async def test_a_checkpoint_that_is_gone_for_a_moment_costs_nobody(two: Damaged) -> None:
    """The checkpoint is copied anew, while everything that has it in memory dies and streams run and begin."""
    server, model = two
    work = _work(8, sentences=40)
    early, late = work[::2], work[1::2]
    await asyncio.to_thread(server.wait_for_metric, "dragoman_engine_ready", 2, seconds=60)
    async with server.client(timeout=100) as client:
        expected = await _texts(client, early), await _texts(client, late)
        running = asyncio.create_task(_texts(client, early))
        await asyncio.to_thread(server.wait_until_busy)
        aside = model.rename(model.with_name("aside"))
        _kill([*server.forking_pids(), *server.engine_pids()])
        await until(lambda: "it has no config.json" in server.log.read_text())
        starting = asyncio.create_task(_texts(client, late))
        await asyncio.sleep(1)  # so that they wait
        aside.rename(model)
        assert (await running, await starting) == expected
    assert server.metric("dragoman_requests_total", 'endpoint="/translate",outcome="not_ready"') == 0


async def test_other_weights_are_never_run_under_the_tokenizer_that_was_read(one: Damaged) -> None:
    """Streams go on while a good engine is left, and end with the reason after a while without one."""
    server, model = one
    config = model / "config.json"
    original = config.read_bytes()
    reason = "its files have changed since the server read them"
    request = {"q": "I see a cat.", "source": "en", "target": "fr"}
    text = " ".join(SENTENCES * 2)
    async with server.client(timeout=100) as client:
        expected = await _texts(client, [(text, {})])
        running = asyncio.create_task(_texts(client, [(text, {})]))
        await asyncio.to_thread(server.wait_until_busy)
        config.write_text(json.dumps(json.loads(original) | {"max_sentence_tokens": 64}))
        _kill(server.engine_pids())
        assert await running == expected, "the fork server has the old weights"
        running = asyncio.create_task(_texts(client, [(text, {})]))
        await asyncio.to_thread(server.wait_until_busy)
        _kill([*server.forking_pids(), *server.engine_pids()])
        [ended] = await running
        assert isinstance(ended, Event)
        assert (ended.data["code"], reason in ended.data["error"]) == ("engine_failed", True)
        refused = await client.post("/translate", json=request)
        assert (refused.status_code, refused.json()["code"]) == (503, "not_ready")
        assert reason in refused.json()["error"]
        assert "retry-after" in refused.headers
        assert reason in (await client.get("/readyz")).json()["error"]
        assert reason in server.log.read_text()
        config.write_bytes(original)
        server.wait_until_ready()
        assert await _texts(client, [(text, {})]) == expected


async def test_a_stream_resumes_on_a_server_that_still_loads(server: Server, start_server: StartServer) -> None:
    query = {"q": " ".join(SENTENCES[:5]), "source": "en", "target": "fr"}
    async with (
        server.client(timeout=100) as client,
        client.stream("GET", "/translate/stream", params=query) as response,
    ):
        whole = [event async for event in read_events(response)]
    with start_server(ready=False) as loading:
        async with loading.client(timeout=100) as client:
            while True:
                with suppress(httpx.TransportError):
                    assert (await client.get("/readyz")).status_code == 503
                    break
                await asyncio.sleep(0.01)
            last = {"Last-Event-ID": "3"}
            async with client.stream("GET", "/translate/stream", params=query, headers=last) as response:
                assert response.status_code == 200
                rest = [event async for event in read_events(response)]
    assert [(each.id, each.name) for each in rest] == [(each.id, each.name) for each in whole[4:]]
    assert rest[-1].data["translatedText"] == whole[-1].data["translatedText"]
