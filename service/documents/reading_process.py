"""The server's handle on a process that reads and writes one document."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Sequence
from typing import Final

from service.documents.paragraph import Batch
from service.documents.reading import HEADER, Answer, Counted, Order, Refused, Written, decode_answer, frame
from service.errors import ServiceError, TooLong
from service.process.interpreter import python_command

logger = logging.getLogger(__name__)

_END_SECONDS: Final = 2.0
_SLOWER: Final = 10
"""How many times the limit of processor time a process may take in all on a loaded machine, for one answer."""


class ReadingProcess:
    """A process that has an order. Killed at once when the context `reading` is left."""

    def __init__(self, process: asyncio.subprocess.Process, order: Order) -> None:
        self._process = process
        self._order = order

    async def answer(self, translations: Sequence[str] | None = None) -> Counted | Batch | Written:
        """Send the translations of the last texts, if there are any, and return the next answer.

        Raises `InvalidRequest`, `TooLong`, `UnsupportedFormat`, `InsufficientStorage`.
        """
        source, sink = self._process.stdout, self._process.stdin
        assert source is not None
        assert sink is not None
        try:
            if translations is not None:
                sink.write(frame(list(translations)))
                await sink.drain()
            async with asyncio.timeout(self._order.limits.max_processor_seconds * _SLOWER):
                (size,) = HEADER.unpack(await source.readexactly(HEADER.size))
                found: Answer = decode_answer(await source.readexactly(size))
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            raise await self._death() from None
        if isinstance(found, Refused):
            raise found.to_error()
        return found

    async def _death(self) -> ServiceError:
        """Return the error for a process that ended, or did not answer in time."""
        self.kill()
        code = await self._process.wait()
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            seconds = self._order.limits.max_processor_seconds
            return TooLong("file", f"reading and writing it takes more than {seconds} seconds of processor time")
        if code < 0:  # a library that does not check for it crashes without memory
            return TooLong("file", f"it needs more than {self._order.limits.max_memory_bytes} bytes of memory")
        logger.error("a process that reads documents ended with %s", code)
        return ServiceError("internal error")

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # with the process that reads a PDF

    async def end(self) -> None:
        """Kill the process; on a machine that is too busy to remove it, it ends by itself."""
        self.kill()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), _END_SECONDS)


@contextlib.asynccontextmanager
async def reading(order: Order) -> AsyncIterator[ReadingProcess]:
    """Start a process with an order. It has ended when the context is left."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *python_command("-m", "service.documents"), stdin=pipe, stdout=pipe, limit=1 << 20, start_new_session=True
    )
    found = ReadingProcess(process, order)
    try:
        assert process.stdin is not None
        process.stdin.write(frame(order))
        yield found
    finally:
        await asyncio.shield(found.end())
