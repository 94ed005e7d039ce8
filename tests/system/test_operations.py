"""Routes beside translations: languages, probes, documentation, the page; and logs."""

import asyncio
import json
import os
import re
import signal
from collections.abc import Iterable

import httpx
import pytest

from tests.system.answers import translate
from tests.system.conftest import Server, StartServer
from tests.waiting import wait_for


async def test_languages_probes_and_documentation(client: httpx.AsyncClient) -> None:
    assert (await client.get("/languages")).json() == [
        {"code": "en", "name": "English", "targets": ["en", "fr"]},
        {"code": "fr", "name": "French", "targets": ["fr"]},
    ]
    for path in ("/livez", "/readyz", "/health"):
        assert (await client.get(path)).json() == {"status": "ok"}
    assert (await client.get("/docs")).status_code == 200


async def test_head_is_get_without_a_body(client: httpx.AsyncClient, server: Server) -> None:
    pages = ("/", "/docs", "/openapi.json", "/web/page.js", "/livez", "/readyz", "/health", "/models")
    for path in (*pages, "/languages", "/frontend/settings", "/v2/languages", "/translate", "/nowhere"):
        full, head = await client.get(path), await client.head(path)
        assert (head.status_code, head.content) == (full.status_code, b""), path
        compared = ("content-type", "content-length", "etag")
        assert [head.headers.get(name) for name in compared] == [full.headers.get(name) for name in compared], path
    assert (await client.head("/metrics")).status_code == 200
    logged = server.log.read_text()
    assert '"method": "HEAD", "route": "/languages", "status": 200' in logged
    query = {"q": "a", "source": "en", "target": "fr"}
    assert (await client.head("/translate/stream", params=query)).status_code == 405, "nobody would read it"


async def test_the_page_loads_nothing_from_elsewhere(client: httpx.AsyncClient) -> None:
    page = await client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert "web/page.js" in links
    for link in links:
        if link != "data:,":
            assert (await client.get(link)).status_code == 200, link


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_stream_begins_with_the_id_that_the_log_has(client: httpx.AsyncClient, method: str) -> None:
    fields = {"q": "I see a cat.", "source": "en", "target": "fr"}
    if method == "GET":
        answer = await client.get("/translate/stream", params=fields, headers={"X-Request-ID": "abc-2"})
    else:
        answer = await client.post("/translate", json={**fields, "stream": True}, headers={"X-Request-ID": "abc-2"})
    assert '"id":"abc-2"' in answer.text.partition("event: start")[2].splitlines()[1]


async def test_logs_are_json_and_hold_no_text(client: httpx.AsyncClient, server: Server) -> None:
    await translate(client, "The secret word is xylophone.", seed=1)
    await asyncio.sleep(0.1)
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    requests = [line for line in lines if line["message"] == "request"]
    assert {"time", "level", "request_id", "route", "status", "outcome", "seconds"} <= set(requests[-1])
    assert "xylophone" not in server.log.read_text()


async def test_metrics_tell_of_engines_that_say_nothing(start_server: StartServer) -> None:
    """Work that was given to a stopped engine, and work that waits while there is none."""
    with start_server("--slots", "4") as server:
        assert server.metric("dragoman_ready") == server.metric("dragoman_engine_ready") == 1
        assert server.metric("dragoman_slots") == 4
        assert server.metric("dragoman_models", 'state="ready"') == 1
        assert server.metric("dragoman_engine_memory_bytes") > 15e6
        [engine] = server.engine_pids()
        for pid in (engine, *server.fork_servers()):
            os.kill(pid, signal.SIGSTOP)
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            asked = [asyncio.create_task(translate(client, f"I have {i} cats.")) for i in range(6)]
            # Nobody knows yet.
            await asyncio.to_thread(_wait_for, server, ready=1, requests_waiting=6)
            os.kill(engine, signal.SIGKILL)
            # The next engine comes when the process that would make it has been given up and replaced.
            await asyncio.to_thread(_wait_for, server, ready=0, engine_ready=0, slots=0, requests_waiting=6)
            await asyncio.gather(*asked)
        for name in ("requests_waiting", "requests_running", "slots_used"):
            server.wait_for_metric(f"dragoman_{name}", 0)
        assert server.metric("dragoman_ready") == server.metric("dragoman_engine_ready") == 1


def _wait_for(server: Server, **metrics: float) -> None:
    """Wait until all metrics have these values at one moment."""
    wait_for(lambda: _at_once(server, metrics) == metrics, otherwise=lambda: _at_once(server, metrics))


def _at_once(server: Server, names: Iterable[str]) -> dict[str, float]:
    exposition = server.scrape()
    return {name: server.sample(exposition, f"dragoman_{name}") for name in names}
