"""Start, overload, death of an engine, drain: each with one defined outcome."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

from service.settings import EMBEDDED_MODEL
from tests.system.conftest import Server, StartServer
from tests.system.sentences import LONG_TEXT, SENTENCES
from tests.system.sse import REQUEST, Event, read_events, stream, text_of


def _client(server: Server) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=server.url, timeout=60, limits=httpx.Limits(max_connections=None))


async def test_not_ready_until_the_model_has_answered(start_server: StartServer) -> None:
    with start_server(ready=False) as server:
        answers: list[tuple[int, int]] = []
        deadline = time.monotonic() + 60
        async with _client(server) as client:
            while not answers or answers[-1][0] != 200:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)
                try:
                    live = (await client.get("/livez")).status_code
                    answers.append(((await client.get("/readyz")).status_code, live))
                    if answers[-1][0] == 503:
                        early = await client.post("/translate", json={"q": "a", "source": "en", "target": "fr"})
                        if early.status_code == 503:
                            assert early.json()["code"] == "not_ready"
                            assert early.headers["retry-after"]
                except httpx.ConnectError:
                    continue
            assert answers[0] == (503, 200)
            response = await client.post("/translate", json={"q": "a", "source": "en", "target": "fr"})
            assert response.status_code == 200


async def test_a_stream_survives_the_death_of_its_engine(start_server: StartServer) -> None:
    """kill -9 in mid-stream: a pause, then the text that would have come anyway."""
    with start_server("--slots", "8") as server:
        texts = [" ".join(SENTENCES[i : i + 4]) for i in range(0, 40, 4)]
        async with _client(server) as client:
            expected = [text_of(await stream(client, text)) for text in texts]

            async def one(text: str) -> list[Event]:
                return await stream(client, text)

            running = [asyncio.create_task(one(text)) for text in texts]
            await asyncio.to_thread(server.wait_for_metric, "dragoman_slots_used", 8)
            [engine] = server.engine_pids()
            os.kill(engine, signal.SIGKILL)
            results = await asyncio.gather(*running)
            assert [text_of(events) for events in results] == expected
            for events in results:
                assert [event.id for event in events] == list(range(len(events)))
                assert events[-1].name == "done"
            assert server.metric("dragoman_engine_restarts_total") == 1
            assert server.engine_pids() != [engine]
        server.wait_for_metric("dragoman_slots_used", 0)


async def test_a_request_that_outlives_three_engines_is_given_up(start_server: StartServer) -> None:
    """It may be what kills them; the server goes on without it."""
    with start_server() as server:
        body = {"q": LONG_TEXT, **REQUEST}
        async with _client(server) as client, client.stream("POST", "/translate", json=body) as response:
            events = read_events(response)
            assert (await anext(events)).name == "start"
            for restarts in range(3):
                server.wait_for_metric("dragoman_engine_restarts_total", restarts)
                engine = server.wait_for_engine()
                os.kill(engine, signal.SIGKILL)
            rest = [event async for event in events]
            assert (rest[-1].name, rest[-1].data["code"]) == ("error", "engine_failed")
        await asyncio.to_thread(server.wait_until_ready)
        async with _client(server) as client:
            assert text_of(await stream(client, "I am a cat.")) == "Je suis un chat."


def test_engines_end_with_the_http_process(start_server: StartServer) -> None:
    with start_server("--replicas", "2", "--threads", "1") as server:
        server.process.kill()
        server.process.wait()
        deadline = time.monotonic() + 10
        while server.has_processes():
            assert time.monotonic() < deadline, "an engine was left behind"
            time.sleep(0.05)


async def test_a_full_queue_refuses_and_says_when_to_come_back(start_server: StartServer) -> None:
    with start_server("--slots", "1", "--max-waiting", "1", "--max-segments-in-flight", "2") as server:
        async with _client(server) as client:
            async with client.stream("POST", "/translate", json={"q": " ".join(SENTENCES[:40]), **REQUEST}) as response:
                events = read_events(response)
                assert (await anext(events)).name == "start"
                for body in ({"q": "Yes.", **REQUEST}, {"q": "Yes.", **REQUEST, "stream": False}):
                    refused = await client.post("/translate", json=body)
                    assert refused.status_code == 429
                    assert refused.json()["code"] == "queue_full"
                    assert int(refused.headers["retry-after"]) >= 1
                rest = [event async for event in events]
            assert rest[-1].name == "done", "a text that was let in is translated to its end"
            again = await client.post("/translate", json={"q": "Yes.", "source": "en", "target": "fr"})
            assert again.status_code == 200
        assert server.metric("dragoman_requests_total", 'outcome="queue_full"') == 2


async def test_two_replicas_share_the_work(start_server: StartServer) -> None:
    with start_server("--replicas", "2", "--threads", "1", "--slots", "4") as server:
        assert len(server.engine_pids()) == 2
        async with _client(server) as client:
            one_by_one = [text_of(await stream(client, text)) for text in SENTENCES[:20]]
            together = await asyncio.gather(*(stream(client, text) for text in SENTENCES[:20]))
            same = sum(text_of(e) == expected for e, expected in zip(together, one_by_one, strict=True))
            assert same >= 19


async def test_sigterm_drains(start_server: StartServer) -> None:
    with start_server() as server:
        async with _client(server) as client:
            async with client.stream("POST", "/translate", json={"q": LONG_TEXT, **REQUEST}) as response:
                events = read_events(response)
                assert (await anext(events)).name == "start"
                server.process.send_signal(signal.SIGTERM)
                await asyncio.sleep(0.1)
                refused = await client.post("/translate", json={"q": "Yes.", "source": "en", "target": "fr"})
                assert (refused.status_code, refused.json()["code"]) == (503, "not_ready")
                assert (await client.get("/readyz")).status_code == 503
                assert (await client.get("/livez")).status_code == 200
                rest = [event async for event in events]
            assert rest[-1].name == "done"
        assert await asyncio.to_thread(server.process.wait, 20) == 0


async def test_a_second_sigterm_does_not_wait(start_server: StartServer) -> None:
    with start_server() as server:
        body = {"q": LONG_TEXT, **REQUEST}
        async with _client(server) as client, client.stream("POST", "/translate", json=body) as response:
            events = read_events(response)
            await anext(events)
            server.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.1)
            server.process.send_signal(signal.SIGTERM)
            rest = [event async for event in events]
            assert (rest[-1].name, rest[-1].data["code"]) == ("error", "not_ready")
            assert await asyncio.to_thread(server.process.wait, 20) == 0


async def test_a_stream_that_outlasts_the_drain_is_told(start_server: StartServer) -> None:
    with start_server("--drain-seconds", "0.2") as server:
        body = {"q": LONG_TEXT, **REQUEST}
        async with _client(server) as client, client.stream("POST", "/translate", json=body) as response:
            events = read_events(response)
            assert (await anext(events)).name == "start"
            server.process.send_signal(signal.SIGTERM)
            rest = [event async for event in events]
            assert (rest[-1].name, rest[-1].data["code"]) == ("error", "not_ready")
            assert [event.name for event in rest].count("error") == 1
        assert await asyncio.to_thread(server.process.wait, 20) == 0
        assert "Traceback" not in server.log.read_text()


def _serve(*flags: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "service", "serve", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


def test_wrong_settings_refuse_to_start_and_name_the_field(tmp_path: Path) -> None:
    status, message = _serve("--slots", "0")
    assert status == 2
    assert "slots" in message
    status, message = _serve("--model", str(tmp_path))
    assert status == 2
    assert "has no config.json" in message


def test_broken_weights_end_the_server_with_the_reason(tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.model"):
        (tmp_path / name).write_bytes((EMBEDDED_MODEL / name).read_bytes())
    (tmp_path / "model.safetensors").write_bytes((EMBEDDED_MODEL / "model.safetensors").read_bytes()[:-1000])
    status, message = _serve("--model", str(tmp_path), "--port", "0")
    assert status == 1
    assert "model.safetensors" in message


def test_a_port_in_use_is_said(server: Server) -> None:
    status, message = _serve("--port", server.url.rsplit(":", 1)[1])
    assert status != 0
    assert "address already in use" in message
