"""So much a minute, and so many at once, for each caller. `limits` counts; how long to wait is reckoned here."""

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from limits import RateLimitItem, RateLimitItemPerMinute
from limits.aio.storage import MemoryStorage, RedisStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from limits.errors import StorageError

from service.settings import UnusableSettingError

if TYPE_CHECKING:
    from redis.asyncio import ConnectionPool

logger = logging.getLogger(__name__)

_MINUTE: Final = 60.0
_REDIS_SECONDS: Final = 0.5
"""A Redis that takes longer to answer is as good as gone: requests wait for it."""
_REDIS_PAUSE_SECONDS: Final = 5.0


class _Memory(MemoryStorage):
    """Looks for what has expired once a minute; the library's own does so in all of it with every request."""

    def __init__(self) -> None:
        super().__init__()
        self._swept_at = 0.0

    async def incr(self, key: str, expiry: float, amount: int = 1) -> int:
        now = time.time()  # noqa: TID251  the library's clock
        if now >= self._swept_at + _MINUTE:
            self._swept_at = now
            for expired in [each for each, end in self.expirations.items() if end <= now]:
                await self.clear(expired)
        if not await self.get(key):
            self.expirations[key] = now + expiry
        self.storage[key] += amount
        return self.storage[key]


class Rates:
    """Requests and characters of callers in the last minute.

    A sliding window of two counters: what a caller used in this minute, and of what it used in the one before, the
    share that is not yet a minute ago. Counted in Redis where there is one; while that does not answer, each server
    counts for itself.
    """

    def __init__(self, redis_url: str | None) -> None:
        self._own = SlidingWindowCounterRateLimiter(_Memory())
        self._redis = None if redis_url is None else _redis(redis_url)
        self._shared = None if self._redis is None else _shared(self._redis)
        self._shared_from = 0.0

    async def aclose(self) -> None:
        if self._redis is not None:
            await self._redis.disconnect()

    async def reachable(self) -> bool:
        """Whether Redis answers, where there is one."""
        if self._shared is None:
            return True
        try:
            async with asyncio.timeout(_REDIS_SECONDS):
                return await self._shared.storage.check()
        except (StorageError, OSError):
            return False

    async def count(self, caller: str, what: str, limit: int, cost: int) -> int | None:
        """Count `cost` (in `what`) against `limit` a minute, and it must not be more.

        None if it was counted, else the seconds until there is room for it.
        """
        item = RateLimitItemPerMinute(limit, namespace=f"dragoman:{what}")
        if self._shared is not None and time.monotonic() >= self._shared_from:
            try:
                async with asyncio.timeout(_REDIS_SECONDS):
                    return await _hit(self._shared, item, caller, cost)
            except (StorageError, OSError) as error:
                # Not asked for every request, each of which would wait.
                self._shared_from = time.monotonic() + _REDIS_PAUSE_SECONDS
                logger.warning("Redis does not answer: this server counts for itself", extra={"reason": repr(error)})
        return await _hit(self._own, item, caller, cost)


def _redis(url: str) -> "ConnectionPool":
    try:
        from redis.asyncio import ConnectionPool
    except ImportError:
        raise UnusableSettingError(
            "redis_url: the client is missing; it comes with `pip install 'dragoman[redis]'`"
        ) from None
    return ConnectionPool.from_url(url)


def _shared(pool: "ConnectionPool") -> SlidingWindowCounterRateLimiter:
    # The pool says where it is; `limits` has a word for that only to tell the kinds of storage apart.
    storage = RedisStorage(
        "async+redis://",
        wrap_exceptions=True,
        implementation="redispy",
        connection_pool=pool,  # type: ignore[arg-type]
    )
    return SlidingWindowCounterRateLimiter(storage)


async def _hit(limiter: SlidingWindowCounterRateLimiter, item: RateLimitItem, caller: str, cost: int) -> int | None:
    """None if it was counted, else the seconds until it would be."""
    if await limiter.hit(item, caller, cost=cost):
        return None
    storage = limiter.storage
    assert isinstance(storage, MemoryStorage | RedisStorage)
    window = Window(*await storage.get_sliding_window(item.key_for(caller), item.get_expiry()))
    return math.ceil(window.seconds_until(item.amount - cost))


class Window(NamedTuple):
    """A caller's last two minutes: counts, and the seconds until they are of no account."""

    previous: int
    previous_left: float
    current: int
    current_left: float

    def seconds_until(self, room: int) -> float:
        """Until it holds no more than `room`, if nothing comes meanwhile; at least 1."""
        if self.current <= room:
            # The previous minute has to lose weight: previous * left / 60 = room - current.
            wait = self.previous_left - (room - self.current) * _MINUTE / max(self.previous, 1)
        else:
            # This minute has to become the previous one, and then to lose weight itself.
            wait = self.current_left - _MINUTE + _MINUTE * (1 - room / self.current)
        return max(wait, 1.0)


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
