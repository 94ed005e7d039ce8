"""So much a minute, and so many at once, for each caller. `limits` counts; how long to wait is reckoned here."""

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from limits import RateLimitItem, RateLimitItemPerMinute
from limits.aio.strategies import SlidingWindowCounterRateLimiter

from service.access.counters import Counters, Storage

_MINUTE: Final = 60.0
_ROUNDING: Final = 0.001
"""Seconds, of Redis; Python's clock has less."""


class Rates:
    """Requests and characters of callers in the last minute.

    A sliding window of two counters: what a caller used in this minute, and of what it used in the one before, the
    share that is not yet a minute ago.
    """

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    async def count(self, caller: str, what: str, limit: int, cost: int) -> int | None:
        """Count `cost` (in `what`) against `limit` a minute, and it must not be more.

        None if it was counted, else the seconds until there is room for it.
        """
        item = RateLimitItemPerMinute(limit, namespace=f"dragoman:{what}")
        return await self._counters.use(lambda storage: _hit(storage, item, caller, cost))


async def _hit(storage: Storage, item: RateLimitItem, caller: str, cost: int) -> int | None:
    """None if it was counted, else the seconds until it would be."""
    if await SlidingWindowCounterRateLimiter(storage).hit(item, caller, cost=cost):
        return None
    window = Window(*await storage.get_sliding_window(item.key_for(caller), item.get_expiry()))
    return window.seconds_until(item.amount - cost)


class Window(NamedTuple):
    """A caller's last two minutes: counts, and the seconds until they are of no account."""

    previous: int
    previous_left: float
    current: int
    current_left: float

    def seconds_until(self, room: int) -> int:
        """The first whole second at which it holds no more than `room`, if nothing comes meanwhile; at least 1.

        More than a minute only for what costs much: behind a minute's use at once, as much again has to wait until
        the minute in which that was is over, and then until it has lost its weight.
        """
        # `limits` rounds down what it weighs: there is room as soon as that is less than one more.
        most = (room + 1) * _MINUTE
        if self.current <= room:
            # The previous minute has to lose weight: previous * left / 60 < room + 1 - current.
            wait = self.previous_left - (most - self.current * _MINUTE) / max(self.previous, 1)
        else:
            # This minute has to become the previous one, and then to lose weight itself.
            wait = self.current_left - most / self.current
        return max(math.floor(wait + _ROUNDING) + 1, 1)


class Streams:
    """How many streams each caller has open, in this process."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def is_full(self, caller: str, limit: int) -> bool:
        return self._open[caller] >= limit

    @contextmanager
    def one_more(self, caller: str) -> Iterator[None]:
        """A stream, for as long as the context lasts."""
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]
