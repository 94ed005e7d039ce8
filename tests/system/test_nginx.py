"""A real nginx that buffers responses, as it does by default: events come as they are made."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.system.conftest import ENGINE_TIMEOUT, KEEP_ALIVE, START_SECONDS, Server, StartServer, free_port
from tests.system.sentences import SENTENCES
from tests.system.sse import REQUEST, stream, text_of

pytestmark = pytest.mark.skipif(
    shutil.which("nginx") is None, reason="SKIPPED: no nginx; streams behind a proxy that buffers are not tested"
)

# Everything else is nginx's default, but where it writes and on which port it listens.
_CONFIGURATION = """
{user}
daemon off;
pid {directory}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass {url};
            {more}
        }}
    }}
}}
"""
_COMPRESSED = "gzip on; gzip_types text/event-stream;"


@contextmanager
def _nginx(directory: Path, server: Server, more: str = "") -> Iterator[str]:
    """Start nginx with `more` directives for its proxy; yield its address."""
    port = free_port()
    configuration = directory / "nginx.conf"
    configuration.write_text(
        _CONFIGURATION.format(
            user="user root;" if os.geteuid() == 0 else "", directory=directory, port=port, url=server.url, more=more
        )
    )
    process = subprocess.Popen(["nginx", "-e", "stderr", "-p", str(directory), "-c", str(configuration)])
    try:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


async def _lines(url: str, engine: int, text: str, seconds: float) -> list[str]:
    """Return the lines of a stream whose engine is stopped until a keep-alive; raises `TimeoutError` without one."""
    async with httpx.AsyncClient(base_url=url, timeout=60) as client, asyncio.timeout(seconds) as patience:
        os.kill(engine, signal.SIGSTOP)
        try:
            # What comes at once, the first event, nginx may pass on at once whether it buffers or not.
            async with client.stream("POST", "/translate", json={"q": text, **REQUEST}) as response:
                lines = response.aiter_lines()
                while await anext(lines) != ": keep-alive":
                    pass
                os.kill(engine, signal.SIGCONT)
                patience.reschedule(None)
                return [line async for line in lines]
        finally:
            os.kill(engine, signal.SIGCONT)


async def test_events_come_through_as_they_are_made(start_server: StartServer, tmp_path: Path) -> None:
    """Both by default and with compression, our header makes nginx pass data on at once unless it is ignored."""
    text = " ".join(SENTENCES[:20])
    with start_server(constants={ENGINE_TIMEOUT: 300.0, KEEP_ALIVE: 0.5}) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            expected = text_of(await stream(client, text))
        [engine] = server.engine_pids()
        for more in ("", _COMPRESSED):
            with _nginx(tmp_path, server, more) as url:
                assert "event: done" in await _lines(url, engine, text, seconds=60)
                async with httpx.AsyncClient(base_url=url, timeout=60) as client:
                    assert text_of(await stream(client, text)) == expected
        ignored = _COMPRESSED + "proxy_ignore_headers X-Accel-Buffering;"
        with _nginx(tmp_path, server, ignored) as url, pytest.raises(TimeoutError):
            await _lines(url, engine, text, seconds=5)


@pytest.mark.parametrize("more", ["", "proxy_request_buffering off;"])
def test_who_sends_too_much_sees_why(server: Server, tmp_path: Path, more: str) -> None:
    """A connection that is reset would be a bad gateway to nginx."""
    with _nginx(tmp_path, server, f"client_max_body_size 50m; {more}") as url:
        statuses = [httpx.post(f"{url}/translate", content=b"x" * (5 << 20)).status_code for _ in range(12)]
    assert statuses == [413] * 12
