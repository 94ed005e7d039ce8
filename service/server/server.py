"""Uvicorn, with a drain, and limits of patience: on SIGTERM running requests finish while new ones are refused."""

import asyncio
import ctypes
import gc
import logging
import socket
from types import FrameType
from typing import Final

import uvicorn
from fastapi import FastAPI

from service.api.dependencies import Service
from service.errors import NotReady
from service.server.connection import Connection
from service.settings import Settings, UnusableSettingError

logger = logging.getLogger(__name__)

_TICKS_PER_SECOND: Final = 10  # uvicorn's

# Texts and answers of megabytes are in the HTTP process's memory for a moment, over and over.
# From glibc's malloc.h, and its own first threshold.
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 128 * 1024


def listen(host: str, port: int) -> socket.socket:
    """Open the socket on which the server listens. Raises `UnusableSettingError` with the reason of the system."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        reason = (error.strerror or str(error)).lower()
        raise UnusableSettingError(f"host, port: cannot listen on {host}, port {port}: {reason}") from None
    address = f"[{host}]" if ":" in host else host
    logger.info("listening", extra={"url": f"http://{address}:{listening.getsockname()[1]}"})
    return listening


class DrainingServer(uvicorn.Server):
    """The first signal starts the drain, a second one ends it at once."""

    def __init__(self, app: FastAPI, settings: Settings) -> None:
        # Uvicorn's own grace period only has to outlast ours by the time of a last write.
        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            # Out of descriptors, asyncio's own writes thousands of tracebacks a second and does little else.
            loop="uvloop",
            proxy_headers=False,  # the application's own setting says which proxies are believed
            http=Connection,
            ws="none",  # or a client could change to a protocol that has no limits
            timeout_graceful_shutdown=5,
        )
        super().__init__(config)
        self._service: Service = app.state.service
        self._drain_seconds = settings.drain_seconds
        self._patience = (settings.receive_timeout_seconds, settings.send_timeout_seconds)
        self._drain_task: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        _give_large_blocks_back()
        await super().startup(sockets)
        _settle()

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_PER_SECOND == 0:
            for connection in list(self.server_state.connections):
                if isinstance(connection, Connection):
                    connection.cut_if_overdue(*self._patience)
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called by the signal handler, in the event loop's thread."""
        begin = self._end_what_runs if self._service.draining else self._start_drain
        self._service.draining = True
        asyncio.get_running_loop().call_soon_threadsafe(begin)

    def _start_drain(self) -> None:
        self._drain_task = asyncio.create_task(self._drain())

    def _end_what_runs(self) -> None:
        """A stream that is out of time still gets its one last event."""
        for translation in self._service.translator.running:
            translation.fail(NotReady("the server is shutting down"))
        self.should_exit = True

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._drain_seconds
        logger.info("draining", extra={"requests": len(self._service.translator.running)})
        # Polled: it happens once in a server's life, and a tenth of a second is not noticed.
        while self._service.translator.running and loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        self._end_what_runs()


def _give_large_blocks_back() -> None:
    """From now on a large block that is freed goes back to the system at once; without effect where it does anyway.

    Left alone, glibc counts ever larger ones as small after each that was freed, and its heap grows by their holes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def _settle() -> None:
    """What is there now stays: garbage collections need not look at it again."""
    gc.collect()
    gc.freeze()
