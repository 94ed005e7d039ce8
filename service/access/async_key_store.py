"""The key store for an event loop: waits for the disk, or for another process, happen in threads."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TypeVar, TypeVarTuple

from service.access.charge_store import ChargeStore, LostCharge, PaidStream, Payer, Resumption
from service.access.key_store import Key, KeysError, KeyStore, Usage
from service.access.server_number import ServerNumber
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
        self._number = ServerNumber(path)
        # In WAL mode readers wait for nobody; in the same thread they would wait for writers.
        self._reading, self._writing = (_Connection(path, self._number.value) for _ in range(2))

    async def aclose(self) -> None:
        """Wait for pending writes and close the file."""
        await self._reading.aclose()
        await self._writing.aclose()
        self._number.close()

    async def find(self, key: str) -> Key | None:
        return await self._reading.do(KeyStore.find, key)

    async def usage(self, key: Key, month: str) -> Usage:
        return await self._reading.do(KeyStore.usage, key, month)

    async def charge(self, payer: Payer, characters: int, stream: PaidStream | None = None) -> int | None:
        return await self._writing.do(ChargeStore.charge, payer, characters, stream)

    async def settle(self, charge_id: int) -> None:
        await self._writing.do(ChargeStore.settle, charge_id)

    async def refund(self, charge_id: int, sent: int = 0) -> None:
        await self._writing.do(ChargeStore.refund, charge_id, sent)

    async def resume(
        self, payer: Payer, characters: int, stream: PaidStream, *, only_refunded: bool = False
    ) -> Resumption | None:
        return await self._writing.do(
            partial(ChargeStore.resume, only_refunded=only_refunded), payer, characters, stream
        )

    async def undo_resumption(self, charge_id: int) -> None:
        await self._writing.do(ChargeStore.undo_resumption, charge_id)

    async def undo_charge(self, charge_id: int) -> None:
        """Refund the charge of a lost stream whose resumption did not begin."""
        await self._writing.do(ChargeStore.refund_lost, charge_id)

    async def refund_lost(self, is_refundable: Callable[[LostCharge], Awaitable[bool]]) -> int:
        """Refund the open charges of servers that have ended, but for those that `is_refundable` settles.

        Return the number of charges that were open.
        """
        with self._number.ended(await self._writing.do(ChargeStore.open_servers)) as servers:
            lost = [each for server in servers for each in await self._writing.do(ChargeStore.lost, server)]
            for each in lost:
                end = ChargeStore.refund_lost if await is_refundable(each) else ChargeStore.settle
                await self._writing.do(end, each.charge_id)
        return len(lost)


class _Connection:
    """A connection to the file with a thread of its own, which runs one call after the other."""

    def __init__(self, path: Path, server: int) -> None:
        self._file = ChargeStore(path, server)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keys")

    async def aclose(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
        self._file.close()

    async def do(self, method: Callable[[ChargeStore, *Ts], T], *arguments: *Ts) -> T:
        until = time.monotonic() + _PATIENCE_SECONDS

        def work() -> T:
            # The wait counts from the call: in a queue, the last call must not wait once for each call before it.
            self._file.wait_for_others(until - time.monotonic())
            return method(self._file, *arguments)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except KeysError as error:
            logger.error("the key file cannot be used", extra={"reason": str(error)})
            raise KeysUnavailable from None
