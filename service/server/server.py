"""Uvicorn with a drain and connection timeouts: on SIGTERM running requests finish while new ones are refused."""

import asyncio
import ctypes
import errno
import gc
import logging
import math
import socket
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from service.api.context import ServiceContext
from service.errors import NotReady
from service.server.connection import Connection
from service.server.shutdown import ShutdownDeadline
from service.settings import Settings, UnusableSettingError

logger = logging.getLogger(__name__)

_TICKS_PER_SECOND: Final = 10  # uvicorn's
MAX_FRAME_BYTES: Final = 1_000_000
"""A message of a WebSocket; the first one may hold a glossary."""

# The HTTP process allocates and frees megabytes of texts and responses all the time.
# The names are of glibc's malloc.h; the value is glibc's initial threshold.
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_LARGE_BYTES: Final = 128 * 1024
_FOR_ALL: Final = 0o666

_COLLECTIONS_BEFORE_FULL: Final = 10
"""Collections of the middle generation before all objects are looked through, while nothing is translated."""
_MOST_COLLECTIONS_BEFORE_FULL: Final = 500
"""The same, whatever is translated."""


def listen(settings: Settings) -> socket.socket:
    """Open the socket on which the server listens. Raises `UnusableSettingError` with the reason of the system."""
    if settings.uds is not None:
        return _listen_at(settings.uds)
    return _listen_on(settings.host, settings.port, settings.client_timeout_seconds)


def url_of(listening: socket.socket) -> str:
    """Return the address for a browser on this machine."""
    if listening.family == socket.AF_UNIX:
        return f"unix:{listening.getsockname()}"
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _listen_at(path: Path) -> socket.socket:
    """Open a Unix socket, in place of one that a server has left behind; whoever reaches its directory may connect."""
    listening = socket.socket(socket.AF_UNIX)
    try:
        if path.is_socket():
            with socket.socket(socket.AF_UNIX) as client:
                if client.connect_ex(str(path)) == 0:
                    raise OSError(errno.EADDRINUSE, "another server runs there")
            path.unlink()
        listening.bind(str(path))
        path.chmod(_FOR_ALL)
    except OSError as error:
        listening.close()
        reason = (error.strerror or str(error)).lower()
        raise UnusableSettingError(f"uds: cannot listen at {path}: {reason}") from None
    logger.info("listening", extra={"url": url_of(listening)})
    return listening


def _listen_on(host: str, port: int, client_seconds: float) -> socket.socket:
    """Open a TCP socket.

    The system closes a connection whose client reads nothing for `client_seconds` (on Linux): only the system tells
    such a client from one that reads slowly, since it takes megabytes for both.
    """
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # inherited by the connections
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, math.ceil(1000 * client_seconds))
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        reason = (error.strerror or str(error)).lower()
        if error.errno == errno.EADDRINUSE:
            reason += "; another server runs there? Choose another --port"
        raise UnusableSettingError(f"host, port: cannot listen on {host}, port {port}: {reason}") from None
    address = f"[{host}]" if ":" in host else host
    logger.info("listening", extra={"url": f"http://{address}:{listening.getsockname()[1]}"})
    return listening


class WebSocket(WebSocketsSansIOProtocol):
    """Uvicorn's WebSocket without its log lines: requests have one of ours."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = logging.getLogger("uvicorn.websocket")
        self.logger.setLevel(logging.WARNING)


class DrainingServer(uvicorn.Server):
    """Uvicorn's server with a drain: the first signal starts it, the second ends it at once.

    From the first signal on, `deadline` ends the process if it does not end by itself.
    """

    def __init__(self, app: FastAPI, settings: Settings, deadline: ShutdownDeadline) -> None:
        # Uvicorn's own grace period has to cover only the last writes after our drain.
        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            # Without free descriptors, asyncio's loop logs thousands of tracebacks a second and does little else.
            loop="uvloop",
            proxy_headers=False,  # the application's own setting names the trusted proxies
            http=Connection,
            ws=WebSocket,
            ws_max_size=MAX_FRAME_BYTES,
            ws_per_message_deflate=False,  # a small frame could become a large one
            timeout_graceful_shutdown=5,
        )
        super().__init__(config)
        self._service: ServiceContext = app.state.service
        self._deadline = deadline
        deadline.also_end(self._engine_processes)
        self._drain_seconds = settings.drain_seconds
        self._client_timeout_seconds = settings.client_timeout_seconds
        self._drain_task: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        _keep_memory_small()
        await super().startup(sockets)
        _freeze_objects()

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_PER_SECOND == 0:
            for connection in list(self.server_state.connections):
                if isinstance(connection, Connection):
                    connection.close_if_overdue(self._client_timeout_seconds)
            _collect_garbage(is_idle=not self._service.translator.running)
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start the drain, or end it at the second signal. Runs in the signal handler, in the event loop's thread."""
        self._deadline.start(0.0 if self._service.draining else self._drain_seconds)
        begin = self._fail_running if self._service.draining else self._start_drain
        self._service.draining = True
        asyncio.get_running_loop().call_soon_threadsafe(begin)

    def _start_drain(self) -> None:
        self._service.live.drain()
        self._drain_task = asyncio.create_task(self._drain())

    def _fail_running(self) -> None:
        """Fail all running requests: each stream still gets its one last event."""
        for translation in self._service.translator.running:
            translation.fail(NotReady("the server is shutting down"))
        self.should_exit = True

    def _engine_processes(self) -> list[int]:
        pools = [each.model.pool for each in self._service.library.versions if each.model is not None]
        return [pid for pool in pools for pid in (*pool.pids, pool.parent_pid, pool.zygote_pid) if pid is not None]

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._drain_seconds
        logger.info("draining", extra={"requests": len(self._service.translator.running)})
        # Polled: this happens once, and a tenth of a second does not matter.
        while self._service.translator.running and loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        self._fail_running()


def _keep_memory_small() -> None:
    """Make glibc return large blocks to the system as soon as they are freed, and give all threads one heap.

    By default, glibc raises its threshold for large blocks with each one that is freed, and its heap gets fragmented;
    and each thread keeps a heap of its own as large as it ever was. Python's threads take turns anyway. No effect with
    other C libraries.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_ARENA_MAX, 1)


def _freeze_objects() -> None:
    """Exclude all present objects, which stay for ever, from garbage collection; look at all others when idle."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], _MOST_COLLECTIONS_BEFORE_FULL)


def _collect_garbage(*, is_idle: bool) -> None:
    """Look through all objects while nobody waits: with long texts in flight it stops the process for long."""
    if is_idle and gc.get_count()[2] > _COLLECTIONS_BEFORE_FULL:
        gc.collect()
