"""Rate limits per minute and limits of concurrent streams for each caller.

The library `limits` counts; the wait until a retry is computed here.
"""

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
"""Seconds by which Redis rounds; Python's clock rounds by less."""


class RateLimiter:
    """The requests and characters of callers in the last minute.

    A sliding window of two counters: the usage of this minute, and of the minute before, the share that is less than a
    minute ago.
    """

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    async def count(self, caller: str, what: str, limit: int, cost: int) -> int | None:
        """Count `cost` (in `what`) against `limit` per minute.

        Return None if it was counted, else the seconds until it would fit; `cost` must not exceed `limit`.
        """
        item = RateLimitItemPerMinute(limit, namespace=f"dragoman:{what}")
        return await self._counters.use(lambda storage: _hit(storage, item, caller, cost))


async def _hit(storage: Storage, item: RateLimitItem, caller: str, cost: int) -> int | None:
    """Return None if the cost was counted, else the seconds until it would be."""
    if await SlidingWindowCounterRateLimiter(storage).hit(item, caller, cost=cost):
        return None
    window = Window(*await storage.get_sliding_window(item.key_for(caller), item.get_expiry()))
    return window.seconds_until(item.amount - cost)


class Window(NamedTuple):
    """The last two minutes of a caller: two counts, and the seconds until each expires."""

    previous: int
    previous_left: float
    current: int
    current_left: float

    def seconds_until(self, room: int) -> int:
        """Return the first whole second at which the window holds at most `room`, without further requests; at least 1.

        Only a high cost waits more than a minute: after a minute's limit used at once, the same cost again waits for
        the end of that minute, and then until that minute has lost its weight.
        """
        # `limits` rounds the weighted count down: there is room as soon as it is below `room + 1`.
        most = (room + 1) * _MINUTE
        if self.current <= room:
            # The previous minute must lose weight: previous * left / 60 < room + 1 - current.
            wait = self.previous_left - (most - self.current * _MINUTE) / max(self.previous, 1)
        else:
            # This minute must first become the previous one, and then lose weight itself.
            wait = self.current_left - most / self.current
        return max(math.floor(wait + _ROUNDING) + 1, 1)


class OpenStreams:
    """The number of open streams of each caller in this process."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def is_full(self, caller: str, limit: int) -> bool:
        return self._open[caller] >= limit

    @contextmanager
    def one_more(self, caller: str) -> Iterator[None]:
        """Count a stream for as long as the context lasts."""
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]
