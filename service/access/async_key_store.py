"""The key store for an event loop: waits for the disk, or for another process, happen in threads."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar, TypeVarTuple

from service.access.key_store import Key, KeysError, KeyStore
from service.errors import KeysUnavailable

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 2.0
"""Longest wait of a call for a file that another process has locked. `dragoman keys` locks it for milliseconds."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class AsyncKeyStore:
    """The asynchronous `KeyStore`. Callers without a key are counted too, all together and in this process alone.

    Its methods raise `KeysUnavailable`; the log has the reason.
    """

    def __init__(self, path: Path | None) -> None:
        """Without a path there are no keys. Raises `KeysError`."""
        # In WAL mode readers wait for nobody; in the same thread they would wait for writers.
        self._connections = None if path is None else (_Connection(path), _Connection(path))
        self._anonymous_characters = 0

    @property
    def secret(self) -> bytes:
        """The secret of the file; without one, a secret of this process alone."""
        return secrets.token_bytes() if self._connections is None else self._connections[0].file.secret

    async def aclose(self) -> None:
        """Wait for pending writes and close the file."""
        for each in self._connections or ():
            await each.aclose()

    async def find(self, key: str) -> Key | None:
        if self._connections is None:
            return None
        return await self._connections[0].do(KeyStore.find, key)

    async def used(self, key: Key | None) -> int:
        """Return the key's characters of this month; without a key, those of all such callers since the start."""
        if key is None or self._connections is None:
            return self._anonymous_characters
        return await self._connections[0].do(KeyStore.usage, key, this_month())

    async def count(self, key: Key | None, month: str, characters: int) -> bool:
        """Count characters; return False, and count nothing, if they exceed the month's quota."""
        if key is None or self._connections is None:
            self._anonymous_characters += characters
            return True
        return await self._connections[1].do(KeyStore.count, key, month, characters)

    async def give_back(self, key: Key | None, month: str, characters: int) -> None:
        """Undo a count, or a part of it. Raises nothing: the caller gets its response, or the error that came first."""
        if key is None or self._connections is None:
            self._anonymous_characters -= characters
            return
        try:
            await self._connections[1].do(KeyStore.give_back, key, month, characters)
        except KeysUnavailable:
            fields = {"key_name": key.name, "characters": characters}
            logger.error("characters could not be given back", extra=fields)


def this_month() -> str:
    """Return the current month in UTC as the file has it: 2026-01."""
    return datetime.now(UTC).strftime("%Y-%m")


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
