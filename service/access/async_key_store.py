"""The file of the keys, for an event loop: what waits for the disk, or for another process, waits in threads."""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar, TypeVarTuple

from service.access.key_store import Key, KeyFile, KeysError, Usage
from service.errors import KeysUnavailable

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 2.0
"""From a caller's question on, with a file that another process has locked. `dragoman keys` has it for milliseconds."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Ledger:
    """The methods are those of `KeyFile`, and raise `KeysUnavailable`; the log says why."""

    def __init__(self, path: Path) -> None:
        """Raises `KeysError`."""
        # Who reads a file in WAL mode waits for nobody; in one thread it would wait for those who write.
        self._reading, self._writing = _Connection(path), _Connection(path)

    async def aclose(self) -> None:
        """Wait for what is being written."""
        await self._reading.aclose()
        await self._writing.aclose()

    async def find(self, key: str) -> Key | None:
        return await self._reading.do(KeyFile.find, key)

    async def usage(self, key: Key, month: str) -> Usage:
        return await self._reading.do(KeyFile.usage, key, month)

    async def charge(self, key: Key, month: str, characters: int) -> bool:
        return await self._writing.do(KeyFile.charge, key, month, characters)

    async def give_back(self, key: Key, month: str, characters: int, requests: int) -> None:
        await self._writing.do(KeyFile.give_back, key, month, characters, requests)


class _Connection:
    """To the file, with a thread of its own: one question after the other."""

    def __init__(self, path: Path) -> None:
        self._file = KeyFile(path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keys")

    async def aclose(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
        self._file.close()

    async def do(self, method: Callable[[KeyFile, *Ts], T], *arguments: *Ts) -> T:
        until = time.monotonic() + _PATIENCE_SECONDS

        def work() -> T:
            # Else each of a queue would wait in vain as long as the first, and the last for all of them.
            self._file.wait_for_others(until - time.monotonic())
            return method(self._file, *arguments)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except KeysError as error:
            logger.error("the file of the keys cannot be used", extra={"reason": str(error)})
            raise KeysUnavailable from None
