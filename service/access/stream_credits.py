"""Credits of paid streams: a stream that breaks off is resumed without another charge."""

import math
from typing import Final, NamedTuple

from service.access.counters import Counters, Storage

AFTERWARDS_SECONDS: Final = 300
"""A client that lost its connection may resume for so long after the stream's deadline."""
RESUMPTIONS: Final = 20
"""Resumptions that one payment covers; each may take the engines as much time as the whole stream."""
_RESUMPTION: Final = 1 << 20
"""A counter's value is its payments plus this for each resumption: so both change in one atomic step."""


class StreamCredits:
    """Requests that callers have paid for; each credit lasts until the stream's deadline plus five minutes.

    `caller` and `request` are names that tell them apart. A payment allows `RESUMPTIONS` resumptions; it is refunded
    only while other payments cover all that were used. Servers that share a Redis share the credits, others keep their
    own until they end.
    """

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    async def add(self, caller: str, request: str, seconds: float) -> None:
        """Record that `caller` has paid for `request`, which takes no longer than `seconds`."""
        key, expiry = _key(caller, request), math.ceil(seconds) + AFTERWARDS_SECONDS

        async def write(storage: Storage) -> None:
            await storage.incr(key, expiry)
            await storage.prolong(key, expiry)

        await self._counters.use(write)

    async def use(self, caller: str, request: str) -> bool:
        """Record a resumption; return False if `caller` has not paid for `request`, or has used what it paid."""
        key = _key(caller, request)

        async def resume(storage: Storage) -> bool:
            if _credit(await storage.get(key)).payments < 1:
                return False
            if _credit(await storage.incr(key, AFTERWARDS_SECONDS, _RESUMPTION)).is_covered:
                return True
            await storage.incr(key, AFTERWARDS_SECONDS, -_RESUMPTION)  # used up, or refunded meanwhile
            return False

        return await self._counters.use(resume)

    async def undo_use(self, caller: str, request: str) -> None:
        """Forget a resumption that did not begin."""
        key = _key(caller, request)
        await self._counters.use(lambda storage: storage.incr(key, AFTERWARDS_SECONDS, -_RESUMPTION))

    async def withdraw(self, caller: str, request: str) -> bool:
        """Remove one payment, to refund it; return False, and keep it, if a resumption needs it."""
        key = _key(caller, request)

        async def remove(storage: Storage) -> bool:
            if _credit(await storage.get(key)).payments < 1:
                return False
            if _credit(await storage.incr(key, AFTERWARDS_SECONDS, -1)).is_covered:
                return True
            await storage.incr(key, AFTERWARDS_SECONDS, 1)
            return False

        return await self._counters.use(remove)


class _Credit(NamedTuple):
    payments: int
    """-1 for a moment, if two withdrawals have taken one payment."""
    resumptions: int

    @property
    def is_covered(self) -> bool:
        return self.payments >= 0 and self.resumptions <= RESUMPTIONS * self.payments


def _credit(value: int) -> _Credit:
    """Return what a counter's value stands for."""
    resumptions = (value + _RESUMPTION // 2) // _RESUMPTION
    return _Credit(value - resumptions * _RESUMPTION, resumptions)


def _key(caller: str, request: str) -> str:
    return f"dragoman:paid/{caller}/{request}"
