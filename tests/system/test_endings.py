"""Requests that end before their translation does: by their client, or by their deadline."""

import asyncio
import socket
import time

import httpx
import pytest

from tests.system.conftest import Server
from tests.system.sentences import LONG_TEXT
from tests.system.sse import REQUEST, read_events, stream


@pytest.mark.parametrize("beam_size", [1, 4])
async def test_a_client_that_leaves_a_stream_frees_its_slots(
    client: httpx.AsyncClient, server: Server, beam_size: int
) -> None:
    cancelled = server.metric("dragoman_requests_total", 'outcome="cancelled"')
    async with client.stream(
        "POST", "/translate", json={"q": LONG_TEXT, "beam_size": beam_size, **REQUEST}
    ) as response:
        events = read_events(response)  # kept: dropping it would close the stream
        async for event in events:
            if event.name == "token":
                break
    deadline = time.monotonic() + 10
    while server.sample(left := server.scrape(), "dragoman_requests_total", 'outcome="cancelled"') == cancelled:
        assert time.monotonic() < deadline, "it was not cancelled"
    server.wait_for_metric("dragoman_slots_used", 0)
    steps = server.metric("dragoman_step_seconds_count") - server.sample(left, "dragoman_step_seconds_count")
    assert steps <= 2, "the step that was running, and one whose report was on its way"
    tokens = server.metric("dragoman_generated_tokens_total")
    server.wait_for_metric("dragoman_requests_total", cancelled + 1, 'outcome="cancelled"')
    await asyncio.sleep(0.2)
    assert server.metric("dragoman_generated_tokens_total") == tokens, "it went on translating for nobody"


def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_error(server: Server) -> None:
    cancelled = server.metric("dragoman_requests_total", 'outcome="cancelled"')
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as connection:
        connection.sendall(b'POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"q": ')
    server.wait_for_metric("dragoman_requests_total", cancelled + 1, 'outcome="cancelled"')
    assert "unexpected error" not in server.log.read_text()


async def test_a_client_that_leaves_a_json_request_frees_its_slots(client: httpx.AsyncClient, server: Server) -> None:
    cancelled = server.metric("dragoman_requests_total", 'outcome="cancelled"')
    with pytest.raises(httpx.ReadTimeout):
        await client.post("/translate", json={"q": LONG_TEXT, "source": "en", "target": "fr"}, timeout=0.1)
    server.wait_for_metric("dragoman_requests_total", cancelled + 1, 'outcome="cancelled"')
    server.wait_for_metric("dragoman_slots_used", 0)


async def test_a_deadline_is_kept(client: httpx.AsyncClient, server: Server) -> None:
    body = {"q": LONG_TEXT, "source": "en", "target": "fr", "timeout_seconds": 0.05}
    response = await client.post("/translate", json=body)
    assert (response.status_code, response.json()["code"]) == (504, "deadline_exceeded")
    events = await stream(client, LONG_TEXT, timeout_seconds=0.05)
    assert events[-1].name == "error"
    assert events[-1].data["code"] == "deadline_exceeded"
    server.wait_for_metric("dragoman_slots_used", 0)
