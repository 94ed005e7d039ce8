"""Expiring counters: in a Redis that servers share, or in this process while Redis does not answer."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from limits.aio.storage import MemoryStorage, RedisStorage
from limits.errors import StorageError

from service.settings import UnusableSettingError

if TYPE_CHECKING:
    from redis.asyncio import ConnectionPool

logger = logging.getLogger(__name__)

_SWEEP_SECONDS: Final = 60.0
_REDIS_SECONDS: Final = 0.5
"""Timeout of Redis: requests wait for it."""
_REDIS_PAUSE_SECONDS: Final = 5.0

T = TypeVar("T")


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


Storage = MemoryStorage | RedisStorage


class Counters:
    """The counters of all callers. While Redis does not answer, each server counts for itself."""

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

    async def use(self, work: Callable[[Storage], Awaitable[T]]) -> T:
        """Run `work` on the shared counters, or on this process' own while Redis does not answer."""
        if self._shared is not None and time.monotonic() >= self._shared_from:
            try:
                async with asyncio.timeout(_REDIS_SECONDS):
                    return await work(self._shared)
            except (StorageError, OSError) as error:
                # Not tried with every request: each would wait for the timeout.
                self._shared_from = time.monotonic() + _REDIS_PAUSE_SECONDS
                logger.warning("Redis does not answer: this server counts for itself", extra={"reason": repr(error)})
        return await work(self.own)


def _redis(url: str) -> "ConnectionPool":
    try:
        from redis.asyncio import ConnectionPool
    except ImportError:
        raise UnusableSettingError(
            "redis_url: the client is missing; it comes with `pip install 'dragoman[redis]'`"
        ) from None
    return ConnectionPool.from_url(url)


def _shared(pool: "ConnectionPool") -> RedisStorage:
    # The pool has the address; `limits` reads only the scheme of the URL, to choose the kind of storage.
    return RedisStorage(
        "async+redis://",
        wrap_exceptions=True,
        implementation="redispy",
        connection_pool=pool,  # type: ignore[arg-type]
    )
