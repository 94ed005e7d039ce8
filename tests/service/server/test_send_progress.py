"""Readers behind the system's buffers, on real connections with a clock of the test's own."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import uvloop

from service.server.send_progress import SendProgress

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="only Linux reports what was confirmed")

_SMALL = 4096

Work = Callable[[], Coroutine[Any, Any, None]]


@asynccontextmanager
async def _connected() -> AsyncIterator[tuple[asyncio.Transport, socket.socket]]:
    """A server's transport, and a client with a small buffer."""
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[asyncio.BaseTransport] = loop.create_future()

    class _Protocol(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.set_result(transport)

    server = await loop.create_server(_Protocol, "127.0.0.1", 0)
    client = socket.socket()
    client.setblocking(False)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL)
    await loop.sock_connect(client, server.sockets[0].getsockname())
    transport = cast(asyncio.Transport, await accepted)
    try:
        yield transport, client
    finally:
        transport.abort()
        client.close()
        server.close()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def _reads_nothing() -> None:
    async with _connected() as (transport, client):
        progress = SendProgress(transport)
        assert not progress.is_stuck(0, 3, is_full=False)
        transport.write(b"x" * 100_000)
        await _until(lambda: transport.get_write_buffer_size() == 0)  # the system has taken all of it
        await asyncio.sleep(0.5)  # what the client's side takes into its buffer is confirmed
        assert not progress.is_stuck(1, 3, is_full=False)
        assert not progress.is_stuck(3, 3, is_full=False)
        assert progress.is_stuck(5, 3, is_full=False)
        received = 0
        while received < 50_000:
            received += len(await asyncio.get_running_loop().sock_recv(client, 1000))
        assert not progress.is_stuck(6, 3, is_full=False)
        while received < 100_000:
            received += len(await asyncio.get_running_loop().sock_recv(client, 1000))
        await asyncio.sleep(0.1)
        for now in range(7, 20):
            assert not progress.is_stuck(now, 3, is_full=False)


async def _has_a_silent_server() -> None:
    async with _connected() as (transport, client):
        progress = SendProgress(transport)
        transport.write(b"x" * 100)
        assert await asyncio.get_running_loop().sock_recv(client, 1000)
        await asyncio.sleep(0.1)
        for now in range(20):
            assert not progress.is_stuck(now, 3, is_full=False)


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("work", [_reads_nothing, _has_a_silent_server])
def test_a_client(work: Work, loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(work())


def test_without_the_system_s_figures_the_transport_s_buffer_counts() -> None:
    class _Transport(asyncio.Transport):
        size = 0

        def get_write_buffer_size(self) -> int:
            return self.size

    transport = _Transport()
    progress = SendProgress(transport)
    transport.size = 100
    assert not progress.is_stuck(0, 3, is_full=False)
    assert not progress.is_stuck(9, 3, is_full=True)
    assert progress.is_stuck(13, 3, is_full=True)
    transport.size = 90
    assert not progress.is_stuck(14, 3, is_full=True)
    assert not progress.is_stuck(99, 3, is_full=False)
