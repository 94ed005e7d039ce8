"""Uvicorn, with a drain, and limits of patience: on SIGTERM running requests finish while new ones are refused."""

import asyncio
import logging
import socket
from types import FrameType
from typing import Final

import uvicorn
from fastapi import FastAPI

from service import memory
from service.api.dependencies import Service
from service.connections import Connection
from service.errors import NotReady
from service.settings import Settings

logger = logging.getLogger(__name__)

_TICKS_PER_SECOND: Final = 10  # uvicorn's


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
        memory.give_large_blocks_back()
        await super().startup(sockets)
        memory.settle()

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
