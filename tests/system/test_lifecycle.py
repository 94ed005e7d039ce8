"""Start, overload, death of an engine, drain: each with one defined outcome."""

import asyncio
import os
import signal
import time
from pathlib import Path

import httpx

from service.settings import EMBEDDED_MODEL
from tests.system.commands import dragoman
from tests.system.conftest import COMPILES, Server, StartServer, processor_seconds, shared_server
from tests.system.sentences import LONG_TEXT, SENTENCES
from tests.system.sse import REQUEST, read_events, stream, text_of

# The last test that takes one of them ends it.
starting = shared_server(ready=False)
two_slots = shared_server("--slots", "2", "--max-waiting", "1", "--max-characters", "5000000")
four_slots = shared_server("--slots", "4", "--max-waiting", "1000", "--drain-seconds", "0.2")


async def test_not_ready_until_the_model_has_answered(starting: Server) -> None:
    answers: list[tuple[int, int]] = []
    deadline = time.monotonic() + 60
    async with starting.client() as client:
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


async def test_a_full_queue_refuses_and_says_when_to_come_back(two_slots: Server) -> None:
    [engine] = two_slots.engine_pids()
    async with two_slots.client() as client:
        async with client.stream("POST", "/translate", json={"q": " ".join(SENTENCES), **REQUEST}) as response:
            events = read_events(response)
            assert (await anext(events)).name == "start"
            # The queue would be empty for moments while the engine is faster than the reader.
            os.kill(engine, signal.SIGSTOP)
            await asyncio.to_thread(two_slots.wait_until_waiting)  # a long text is prepared in a thread
            for body in ({"q": "Yes.", **REQUEST}, {"q": "Yes.", **REQUEST, "stream": False}):
                refused = await client.post("/translate", json=body)
                assert refused.status_code == 429
                assert refused.json()["code"] == "queue_full"
                assert int(refused.headers["retry-after"]) >= 1
            os.kill(engine, signal.SIGCONT)
            rest = [event async for event in events]
        assert rest[-1].name == "done", "a text that was let in is translated to its end"
        again = await client.post("/translate", json={"q": "Yes.", "source": "en", "target": "fr"})
        assert again.status_code == 200
    assert two_slots.metric("dragoman_requests_total", 'outcome="queue_full"') == 2


def test_a_beam_is_no_wider_than_the_slots(two_slots: Server) -> None:
    with httpx.Client(base_url=two_slots.url, timeout=60) as client:
        body = {"q": SENTENCES[0], "source": "en", "target": "fr"}
        refused = client.post("/translate", json={**body, "beam_size": 3})
        assert (refused.status_code, refused.json()["error"]) == (400, "beam_size: 3 is requested, the limit is 2")
        assert client.post("/translate", json={**body, "beam_size": 2, "alternatives": 1}).json()["alternatives"]
        # The default beam is as wide as it may be.
        assert client.post("/translate", json={**body, "alternatives": 1}).json()["alternatives"]
        refused = client.post("/translate", json={**body, "alternatives": 2})
        assert (refused.status_code, refused.json()["error"]) == (400, "alternatives: 2 are requested, the limit is 1")


async def test_two_replicas_share_the_work_and_end_with_the_http_process(start_server: StartServer) -> None:
    with start_server("--replicas", "2", "--threads", "1", "--slots", "4") as server:
        assert len(server.engine_pids()) == 2
        async with server.client() as client:
            texts = [" ".join(SENTENCES[i : i + 30]) for i in range(12)]
            one_by_one = [text_of(await stream(client, text)) for text in texts]
            before = [processor_seconds(pid) for pid in server.engine_pids()]
            together = await asyncio.gather(*(stream(client, text) for text in texts))
            worked = [processor_seconds(pid) - at for pid, at in zip(server.engine_pids(), before, strict=True)]
            assert min(worked) > 0.1 * sum(worked)
            same = sum(text_of(events) == expected for events, expected in zip(together, one_by_one, strict=True))
            assert same >= (len(texts) if COMPILES else 11)
        server.process.kill()
        server.process.wait()
        server.wait_until_gone()


async def test_a_second_sigterm_does_not_wait(starting: Server) -> None:
    await asyncio.to_thread(starting.wait_until_ready)
    body = {"q": LONG_TEXT, **REQUEST}
    async with starting.client() as client, client.stream("POST", "/translate", json=body) as response:
        events = read_events(response)
        await anext(events)
        starting.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.1)
        starting.process.send_signal(signal.SIGTERM)
        rest = [event async for event in events]
        assert (rest[-1].name, rest[-1].data["code"]) == ("error", "not_ready")
        assert await asyncio.to_thread(starting.process.wait, 20) == 0


async def test_a_drain_waits_for_a_slow_reader(two_slots: Server) -> None:
    """The engine has finished, but its messages have not been read yet."""
    text = "1. 2. 3. 4. 5. 6. 7. 8. 9.\n" * 150_000  # far more than the sockets hold
    body = {"q": text, **REQUEST}
    async with two_slots.client() as client, client.stream("POST", "/translate", json=body) as response:
        lines = response.aiter_lines()
        await anext(lines)
        two_slots.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(1.5)
        assert two_slots.process.poll() is None
        rest = [line async for line in lines]
        assert "event: done" in rest
    assert await asyncio.to_thread(two_slots.process.wait, 20) == 0


def test_a_server_s_own_deadline(start_server: StartServer) -> None:
    with start_server("--request-timeout-seconds", "0.05") as server, httpx.Client(base_url=server.url) as client:
        response = client.post("/translate", json={"q": LONG_TEXT, "source": "en", "target": "fr"})
        assert (response.status_code, response.json()["code"]) == (504, "deadline_exceeded")


async def test_an_engine_that_dies_under_a_storm_of_requests(four_slots: Server) -> None:
    """Submitting and cancelling while it dies: every request has an outcome, and none stays behind."""
    async with four_slots.client() as client:

        async def one(text: str) -> str:
            while True:
                async with client.stream("POST", "/translate", json={"q": text, **REQUEST}) as response:
                    if response.status_code == 200:
                        return text_of([event async for event in read_events(response)])
                    assert response.status_code == 503, await response.aread()
                await asyncio.sleep(0.1)

        async def impatient(text: str) -> None:
            async with client.stream("POST", "/translate", json={"q": text, **REQUEST}) as response:
                await anext(read_events(response))

        texts = [" ".join(SENTENCES[i : i + 24]) for i in range(8)]
        expected = [await one(text) for text in texts]
        for _ in range(2):
            patient = [asyncio.create_task(one(text)) for text in texts]
            await asyncio.to_thread(four_slots.wait_until_busy)
            storm = [asyncio.create_task(impatient(text)) for text in SENTENCES]
            await asyncio.sleep(0.1)
            os.kill(four_slots.wait_for_engine(), signal.SIGKILL)
            assert await asyncio.gather(*patient) == expected
            await asyncio.gather(*storm, return_exceptions=True)
            await asyncio.to_thread(four_slots.wait_until_ready)
    four_slots.wait_for_metric("dragoman_slots_used", 0)
    four_slots.wait_for_metric("dragoman_requests_waiting", 0)


async def test_a_stream_that_outlasts_the_drain_ends_with_an_error(four_slots: Server) -> None:
    body = {"q": LONG_TEXT, **REQUEST}
    async with four_slots.client() as client, client.stream("POST", "/translate", json=body) as response:
        events = read_events(response)
        assert (await anext(events)).name == "start"
        four_slots.process.send_signal(signal.SIGTERM)
        rest = [event async for event in events]
        assert (rest[-1].name, rest[-1].data["code"]) == ("error", "not_ready")
        assert [event.name for event in rest].count("error") == 1
    assert await asyncio.to_thread(four_slots.process.wait, 20) == 0
    assert "Traceback" not in four_slots.log.read_text()


def test_broken_weights_end_the_server_with_the_reason(tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.model"):
        (tmp_path / name).write_bytes((EMBEDDED_MODEL / name).read_bytes())
    (tmp_path / "model.safetensors").write_bytes((EMBEDDED_MODEL / "model.safetensors").read_bytes()[:-1000])
    done = dragoman("serve", "--model", str(tmp_path), "--port", "0")
    assert done.returncode == 2
    *_, last = done.stderr.splitlines()
    assert last.startswith("dragoman: ")
    assert "model.safetensors" in last
