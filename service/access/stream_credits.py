"""Who has paid for which stream: one that breaks off is resumed without paying again."""

import math
from typing import Final

from service.access.counters import Counters, Storage

_AFTERWARDS_SECONDS: Final = 300
"""Behind a stream's deadline: so long, whoever has lost its connection may come back."""
_RESUMPTIONS: Final = 20
"""That one payment is good for: each takes the engines as much time as the first."""
_REPEATS: Final = 2
"""That are left behind the end: a connection may take it, and lose it on the way."""


class Receipts:
    """Of streams that were paid for a short while ago.

    `caller` and `request` are names that tell them apart; what is paid several times is good for as many times more.
    Kept by servers that share a Redis together, by others each for itself and until it ends.
    """

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    async def give(self, caller: str, request: str, seconds: float) -> None:
        """Once `caller` has paid for `request`, which takes no longer than `seconds`."""
        key, expiry = _key(caller, request), math.ceil(seconds) + _AFTERWARDS_SECONDS

        async def write(storage: Storage) -> None:
            await storage.incr(key, expiry, _RESUMPTIONS)
            await storage.prolong(key, expiry)

        await self._counters.use(write)

    async def take_back(self, caller: str, request: str) -> bool:
        """Of what fails and is to be paid back; False, and nothing, if its resumptions have been used."""
        key = _key(caller, request)
        return await self._counters.use(lambda storage: _take(storage, key, _RESUMPTIONS))

    async def use(self, caller: str, request: str) -> bool:
        """Whether `caller` has one for `request`, which is good for one time less from now on."""
        key = _key(caller, request)
        return await self._counters.use(lambda storage: _take(storage, key, 1))

    async def undo_use(self, caller: str, request: str) -> None:
        """Of what then did not begin."""
        key = _key(caller, request)
        await self._counters.use(lambda storage: storage.incr(key, _AFTERWARDS_SECONDS, 1))

    async def finish(self, caller: str, request: str) -> None:
        """Once `caller` has got all of `request`: the same may be asked for a few times yet."""
        key = _key(caller, request)

        async def lower(storage: Storage) -> None:
            spare = min(await storage.get(key), _RESUMPTIONS) - _REPEATS
            if spare > 0:
                await _take(storage, key, spare)

        await self._counters.use(lower)


async def _take(storage: Storage, key: str, count: int) -> bool:
    """Whether there was as much; less is left as it was."""
    if await storage.get(key) < count:
        return False
    if await storage.incr(key, _AFTERWARDS_SECONDS, -count) >= 0:
        return True
    await storage.incr(key, _AFTERWARDS_SECONDS, count)  # another was quicker
    return False


def _key(caller: str, request: str) -> str:
    return f"dragoman:paid/{caller}/{request}"
