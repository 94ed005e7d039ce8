"""Credits of paid streams: a stream that breaks off is resumed without another charge."""

import math
from typing import Final

from service.access.counters import Counters, Storage

_AFTERWARDS_SECONDS: Final = 300
"""A client that lost its connection may resume for so long after the stream's deadline."""
_RESUMPTION: Final = 1 << 20
"""A counter's value is its payments plus this for each resumption: so both change in one atomic step."""


class StreamCredits:
    """Requests that callers have paid for; each credit lasts until the stream's deadline plus five minutes.

    `caller` and `request` are names that tell them apart. A credit allows any number of resumptions; a payment is
    refunded only while another one, or no resumption, is left. Servers that share a Redis share the credits, others
    keep their own until they end.
    """

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    async def add(self, caller: str, request: str, seconds: float) -> None:
        """Record that `caller` has paid for `request`, which takes no longer than `seconds`."""
        key, expiry = _key(caller, request), math.ceil(seconds) + _AFTERWARDS_SECONDS

        async def write(storage: Storage) -> None:
            await storage.incr(key, expiry)
            await storage.prolong(key, expiry)

        await self._counters.use(write)

    async def use(self, caller: str, request: str) -> bool:
        """Record a resumption; return False if `caller` has not paid for `request`."""
        key = _key(caller, request)

        async def resume(storage: Storage) -> bool:
            if not _payments(await storage.get(key)):
                return False
            if _payments(await storage.incr(key, _AFTERWARDS_SECONDS, _RESUMPTION)):
                return True
            await storage.incr(key, _AFTERWARDS_SECONDS, -_RESUMPTION)  # the payment was refunded meanwhile
            return False

        return await self._counters.use(resume)

    async def undo_use(self, caller: str, request: str) -> None:
        """Forget a resumption that did not begin."""
        key = _key(caller, request)
        await self._counters.use(lambda storage: storage.incr(key, _AFTERWARDS_SECONDS, -_RESUMPTION))

    async def withdraw(self, caller: str, request: str) -> bool:
        """Remove one payment, to refund it; return False, and keep it, if a resumption needs it."""
        key = _key(caller, request)

        async def remove(storage: Storage) -> bool:
            if not _payments(await storage.get(key)):
                return False
            left = await storage.incr(key, _AFTERWARDS_SECONDS, -1)
            if left == 0 or _payments(left):
                return True
            await storage.incr(key, _AFTERWARDS_SECONDS, 1)
            return False

        return await self._counters.use(remove)


def _payments(value: int) -> int:
    """Return the payments in a counter's value; 0 also where two withdrawals have taken one too many for a moment."""
    payments = value % _RESUMPTION
    return payments if payments < _RESUMPTION // 2 else 0


def _key(caller: str, request: str) -> str:
    return f"dragoman:paid/{caller}/{request}"
