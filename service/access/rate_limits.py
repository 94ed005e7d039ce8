"""Rate limits per minute for each caller.

The library `limits` counts, in a Redis that servers share, or in this process while Redis does not answer. The wait
until a retry is computed here.
"""

import asyncio
import logging
import math
import time
from typing import TYPE_CHECKING, Final

from limits import RateLimitItem, RateLimitItemPerMinute
from limits.aio.storage import MemoryStorage, RedisStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from limits.errors import StorageError

from service.settings import UnusableSettingError

if TYPE_CHECKING:
    from redis.asyncio import ConnectionPool

logger = logging.getLogger(__name__)

_SWEEP_SECONDS: Final = 60.0
_REDIS_SECONDS: Final = 0.5
"""Timeout of Redis: requests wait for it."""
_REDIS_PAUSE_SECONDS: Final = 5.0
_MINUTE: Final = 60.0
_ROUNDING: Final = 0.001
"""Seconds by which Redis rounds; Python's clock rounds by less."""


class _Memory(MemoryStorage):
    """Counters of this process. Expired ones are removed once a minute, not with every request as the library does."""

    def __init__(self) -> None:
        super().__init__()
        self._swept_at = 0.0

    async def incr(self, key: str, expiry: float, amount: int = 1) -> int:
        now = time.time()  # noqa: TID251  the library's clock
        if abs(now - self._swept_at) >= _SWEEP_SECONDS:  # also when the clock was set back
            self._swept_at = now
            for expired in [each for each, end in self.expirations.items() if end <= now]:
                await self.clear(expired)
        if not await self.get(key):
            self.expirations[key] = now + expiry
        self.storage[key] += amount
        return self.storage[key]


class RateLimiter:
    """The requests and characters of callers in the last minute. While Redis does not answer, each server counts alone.

    A sliding window of two counters: the usage of this minute, and of the minute before, the share that is less than a
    minute ago.
    """

    def __init__(self, redis_url: str | None) -> None:
        self.own = _Memory()
        self._redis = None if redis_url is None else _redis(redis_url)
        self._shared = None if self._redis is None else _shared(self._redis)
        self._shared_from = 0.0

    async def aclose(self) -> None:
        if self._redis is not None:
            await self._redis.disconnect()

    async def reachable(self) -> bool:
        """Return False if there is a Redis and it does not answer."""
        if self._shared is None:
            return True
        try:
            async with asyncio.timeout(_REDIS_SECONDS):
                return await self._shared.check()
        except (StorageError, OSError):
            return False

    async def count(self, caller: str, what: str, limit: int, cost: int) -> int | None:
        """Count `cost` (in `what`) against `limit` per minute.

        Return None if it was counted, else the seconds until it would fit; `cost` must not exceed `limit`.
        """
        item = RateLimitItemPerMinute(limit, namespace=f"dragoman:{what}")
        if self._shared is not None and time.monotonic() >= self._shared_from:
            try:
                async with asyncio.timeout(_REDIS_SECONDS):
                    return await _hit(self._shared, item, caller, cost)
            except (StorageError, OSError) as error:
                # Not tried with every request: each would wait for the timeout.
                self._shared_from = time.monotonic() + _REDIS_PAUSE_SECONDS
                logger.warning("Redis does not answer: this server counts for itself", extra={"reason": repr(error)})
        return await _hit(self.own, item, caller, cost)


def _redis(url: str) -> "ConnectionPool":
    try:
        from redis.asyncio import ConnectionPool
    except ImportError:
        raise UnusableSettingError("redis_url: the client is missing; it comes with `pip install '.[redis]'`") from None
    return ConnectionPool.from_url(url)


def _shared(pool: "ConnectionPool") -> RedisStorage:
    # The pool has the address; `limits` reads only the scheme of the URL, to choose the kind of storage.
    return RedisStorage(
        "async+redis://",
        wrap_exceptions=True,
        implementation="redispy",
        connection_pool=pool,  # type: ignore[arg-type]
    )


async def _hit(storage: MemoryStorage | RedisStorage, item: RateLimitItem, caller: str, cost: int) -> int | None:
    """Return None if the cost was counted, else the seconds until it would be."""
    if await SlidingWindowCounterRateLimiter(storage).hit(item, caller, cost=cost):
        return None
    window = await storage.get_sliding_window(item.key_for(caller), item.get_expiry())
    return _seconds_until(item.amount - cost, *window)


def _seconds_until(room: int, previous: int, previous_left: float, current: int, current_left: float) -> int:
    """Return the first whole second at which at most `room` are counted, without further requests; at least 1.

    There are two counts, of this minute and of the one before, and the seconds until each expires. Only a high cost
    waits more than a minute: after a minute's limit used at once, the same cost again waits for the end of that minute,
    and then until that minute has lost its weight.
    """
    # `limits` rounds the weighted count down: there is room as soon as it is below `room + 1`.
    most = (room + 1) * _MINUTE
    if current <= room:
        # The previous minute must lose weight: previous * left / 60 < room + 1 - current.
        wait = previous_left - (most - current * _MINUTE) / max(previous, 1)
    else:
        # This minute must first become the previous one, and then lose weight itself.
        wait = current_left - most / current
    return max(math.floor(wait + _ROUNDING) + 1, 1)
