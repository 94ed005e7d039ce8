"""The key store for an event loop: waits for the disk, or for another process, happen in threads."""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar, TypeVarTuple

from service.access.key_store import Key, KeysError, KeyStore, Usage
from service.errors import KeysUnavailable

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 2.0
"""Longest wait of a call for a file that another process has locked. `dragoman keys` locks it for milliseconds."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class AsyncKeyStore:
    """The asynchronous `KeyStore`. Its methods raise `KeysUnavailable`; the log has the reason."""

    def __init__(self, path: Path) -> None:
        """Raises `KeysError`."""
        # In WAL mode readers wait for nobody; in the same thread they would wait for writers.
        self._reading, self._writing = _Connection(path), _Connection(path)
        self.secret = self._reading.file.secret

    async def aclose(self) -> None:
        """Wait for pending writes and close the file."""
        await self._reading.aclose()
        await self._writing.aclose()

    async def find(self, key: str) -> Key | None:
        return await self._reading.do(KeyStore.find, key)

    async def usage(self, key: Key, month: str) -> Usage:
        return await self._reading.do(KeyStore.usage, key, month)

    async def count(self, key: Key, month: str, characters: int) -> bool:
        return await self._writing.do(KeyStore.count, key, month, characters)

    async def give_back(self, key: Key, month: str, usage: Usage) -> None:
        await self._writing.do(KeyStore.give_back, key, month, usage)


class _Connection:
    """A connection to the file with a thread of its own, which runs one call after the other."""

    def __init__(self, path: Path) -> None:
        self.file = KeyStore(path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keys")

    async def aclose(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
        self.file.close()

    async def do(self, method: Callable[[KeyStore, *Ts], T], *arguments: *Ts) -> T:
        until = time.monotonic() + _PATIENCE_SECONDS

        def work() -> T:
            # The wait counts from the call: in a queue, the last call must not wait once for each call before it.
            self.file.wait_for_others(until - time.monotonic())
            return method(self.file, *arguments)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except KeysError as error:
            logger.error("the key file cannot be used", extra={"reason": str(error)})
            raise KeysUnavailable from None
