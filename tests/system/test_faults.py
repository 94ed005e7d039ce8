"""Faults of the machine: no descriptors, no disk space, too many connections."""

import asyncio
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from tests.system.conftest import Server, StartServer, free_port, processor_seconds, shared_server
from tests.system.sentences import SENTENCES
from tests.system.sse import REQUEST, Event, read_events, stream, text_of
from tests.waiting import until, wait_for

CAT = {"q": "I see a cat.", "source": "en", "target": "fr"}

pytestmark = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of a running process are Linux's")


crowded = shared_server()


@pytest.fixture
def limited(crowded: Server) -> Iterator[Callable[[int], None]]:
    """Returns how to limit the server's descriptors; afterwards it has its own limit again."""
    limits = resource.prlimit(crowded.process.pid, resource.RLIMIT_NOFILE)

    def limit(descriptors: int) -> None:
        resource.prlimit(crowded.process.pid, resource.RLIMIT_NOFILE, (descriptors, limits[1]))

    yield limit
    resource.prlimit(crowded.process.pid, resource.RLIMIT_NOFILE, limits)
    crowded.wait_until_ready()


def _connection(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def _open_descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def _until_live(client: httpx.AsyncClient) -> None:
    while True:
        with suppress(httpx.TransportError):
            assert (await client.get("/livez")).status_code == 200
            return
        await asyncio.sleep(0.05)


async def test_without_descriptors_streams_go_on_and_the_crowd_waits(
    crowded: Server, limited: Callable[[int], None]
) -> None:
    """Connections over the limit are not kept, and nothing spins; a stream that runs does not mind; and when the crowd
    has left, those who come are served, with nothing left of it."""
    pid, text = crowded.process.pid, " ".join(SENTENCES * 4)
    async with crowded.client() as client:
        expected = text_of(await stream(client, text))
        async with client.stream("POST", "/translate", json={"q": text, **REQUEST}) as response:
            events = read_events(response)
            seen = [await anext(events)]
            descriptors = _open_descriptors(pid)
            limited(descriptors + 8)
            with ExitStack() as crowd:
                for _ in range(40):
                    crowd.enter_context(_connection(crowded))
                seen += [event async for event in events]
                before = processor_seconds(pid)
                await asyncio.sleep(1)
                assert processor_seconds(pid) - before < 0.5
        async with asyncio.timeout(30):
            await _until_live(client)
            await until(lambda: _open_descriptors(pid) <= descriptors)
        assert text_of(seen) == expected
        assert seen[-1].name == "done"
        assert (await client.post("/translate", json=CAT)).json() == {"translatedText": "Je vois un chat."}


async def test_who_holds_a_connection_and_says_nothing_keeps_nobody_out(
    crowded: Server, limited: Callable[[int], None]
) -> None:
    """However many do: probes are answered, streams are let in, and an engine that dies is replaced."""
    text = " ".join(SENTENCES * 4)  # long enough to be running when the engine is killed
    with ExitStack() as crowd:
        async with crowded.client() as client:
            expected = text_of(await stream(client, text))
            limited(_open_descriptors(crowded.process.pid) + 48)
            for _ in range(100):
                crowd.enter_context(_connection(crowded))
                # The client's own connection says nothing either, and may be closed while the probe is sent on it.
                async with crowded.client() as probe:
                    assert (await probe.get("/livez")).status_code == 200
            running = asyncio.create_task(stream(client, text))
            await asyncio.to_thread(crowded.wait_until_busy)
            os.kill(crowded.wait_for_engine(), signal.SIGKILL)
            events = await running
    assert (text_of(events), events[-1].name) == (expected, "done")
    messages = [json.loads(line)["message"] for line in crowded.log.read_text().splitlines()]
    assert "few descriptors are left, idle connections are closed" in messages
    assert "the engine process could not be run" not in messages


def test_who_comes_with_many_others_is_answered_though_few_descriptors_are_left(
    crowded: Server, limited: Callable[[int], None]
) -> None:
    """A whole request that has come but is not read yet is no silence, nor is one whose body is under way."""
    body = json.dumps(CAT).encode()
    head = (
        "POST /translate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    with ExitStack() as crowd:
        # All have a place, the last ones among the few that are kept for others.
        limited(_open_descriptors(crowded.process.pid) + 116)
        os.kill(crowded.process.pid, signal.SIGSTOP)  # so that all are accepted at once
        clients = [crowd.enter_context(_connection(crowded)) for _ in range(100)]
        slow, whole = clients[:90], clients[90:]
        for client in slow:
            client.sendall(head + body[:10])
        for client in whole:
            client.sendall(head + body)
        os.kill(crowded.process.pid, signal.SIGCONT)
        lines = [client.makefile("rb").readline() for client in whole]
        for client in slow:
            client.sendall(body[10:])
        lines += [client.makefile("rb").readline() for client in slow]
    assert lines == [b"HTTP/1.1 200 OK\r\n"] * 100


async def test_with_the_least_number_of_files_no_stream_is_lost(
    crowded: Server, limited: Callable[[int], None]
) -> None:
    limited(100)
    async with crowded.client() as client:
        alone = [text_of(await stream(client, sentence)) for sentence in SENTENCES[:40]]
        together = await asyncio.gather(*(stream(client, sentence) for sentence in SENTENCES[:40]))
    assert [text_of(events) for events in together] == alone


def test_an_engine_that_cannot_be_started_for_want_of_descriptors_is_tried_again(
    crowded: Server, limited: Callable[[int], None]
) -> None:
    engine = crowded.wait_for_engine()
    # Of those that are open, none is lost; no new one can be had.
    limited(5)
    os.kill(engine, signal.SIGKILL)
    wait_for(lambda: "could not be run" in crowded.log.read_text(), 30)
    limited(1000)
    crowded.wait_until_ready()
    answer = httpx.post(f"{crowded.url}/translate", json=CAT, timeout=60)
    assert answer.json() == {"translatedText": "Je vois un chat."}


def test_a_full_disk_under_the_log_stops_nothing() -> None:
    """Every write of a log line fails, and every request is answered."""
    port = free_port()
    command = [sys.executable, "-m", "service", "serve", "--port", str(port), "--replicas", "1"]
    with Path("/dev/full").open("wb") as full:
        process = subprocess.Popen(command, stderr=full, stdout=full, start_new_session=True)
    server = Server(process, port, Path("/dev/null"))
    try:
        server.wait_until_ready()
        with httpx.Client(base_url=server.url, timeout=60) as client:
            for _ in range(3):
                assert client.post("/translate", json=CAT).json() == {"translatedText": "Je vois un chat."}
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, 120), "120 is Python's word for output that could not be flushed"
        assert not server.has_processes()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_operators_are_found_or_compiled_elsewhere_where_there_is_no_room_for_them(
    start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = tmp_path / "file"
    nowhere.write_text("")  # nothing can be made below a file, by root neither
    monkeypatch.setenv("XDG_CACHE_HOME", str(nowhere))
    monkeypatch.setenv("HOME", str(nowhere))
    with start_server() as server, httpx.Client(base_url=server.url, timeout=60) as client:
        assert client.post("/translate", json=CAT).json() == {"translatedText": "Je vois un chat."}
        messages = [json.loads(line)["message"] for line in server.log.read_text().splitlines()]
        [found] = [message for message in messages if message.startswith("C++ operators for ")]
        assert str(nowhere) not in found


async def test_a_drain_of_many_streams_loses_none(start_server: StartServer) -> None:
    """SIGTERM while they run: each gets its whole translation; who comes after is refused, and probes are answered."""
    with start_server("--slots", "16", "--max-waiting", "1000") as server:
        texts = [" ".join((SENTENCES * 2)[number : number + 20]) for number in range(25)]
        everybody = asyncio.Barrier(len(texts) + 1)
        async with server.client() as client:
            expected = [text_of(await stream(client, text)) for text in texts]

            async def one(text: str) -> list[Event]:
                async with client.stream("POST", "/translate", json={"q": text, **REQUEST}) as response:
                    events = read_events(response)
                    first = await anext(events)
                    await everybody.wait()
                    return [first, *[event async for event in events]]

            running = [asyncio.create_task(one(text)) for text in texts]
            await everybody.wait()
            server.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.1)
            refused = await client.post("/translate", json=CAT)
            assert (refused.status_code, refused.json()["code"]) == (503, "not_ready")
            assert (await client.get("/readyz")).status_code == 503
            assert (await client.get("/livez")).status_code == 200
            results = await asyncio.gather(*running)
        assert [text_of(events) for events in results] == expected
        assert all(events[-1].name == "done" for events in results)
        assert await asyncio.to_thread(server.process.wait, 30) == 0
