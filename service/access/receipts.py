"""Who has paid for which stream: one that breaks off is resumed without paying again."""

import math
from typing import Final

from service.access.counters import Counters, Storage

_AFTERWARDS_SECONDS: Final = 300
"""Behind a stream's deadline: so long, whoever has lost its connection may come back."""
_RESUMPTIONS: Final = 20
"""That one payment is good for: each takes the engines as much time as the first."""


class Receipts:
    """Of streams that were paid for a short while ago.

    `caller` and `request` are names that tell them apart. Kept by servers that share a Redis together, by others each
    for itself and until it ends.
    """

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    async def give(self, caller: str, request: str, seconds: float) -> None:
        """Once `caller` has paid for `request`, which takes no longer than `seconds`."""
        key, expiry = _key(caller, request), math.ceil(seconds) + _AFTERWARDS_SECONDS

        async def write(storage: Storage) -> None:
            # Begins anew where the same was paid for before.
            await storage.clear(key)
            await storage.incr(key, expiry, _RESUMPTIONS)

        await self._counters.use(write)

    async def use(self, caller: str, request: str) -> bool:
        """Whether `caller` has one for `request`, which is good for one time less from now on."""
        key = _key(caller, request)

        async def count(storage: Storage) -> bool:
            return await storage.get(key) > 0 and await storage.incr(key, _AFTERWARDS_SECONDS, -1) >= 0

        return await self._counters.use(count)

    async def take_back(self, caller: str, request: str) -> None:
        """Of what was given back."""
        key = _key(caller, request)
        await self._counters.use(lambda storage: storage.clear(key))


def _key(caller: str, request: str) -> str:
    return f"dragoman:paid/{caller}/{request}"
