"""Counters that expire: in Redis, which servers share, and in this process while that does not answer."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar, cast

from limits.aio.storage import MemoryStorage, RedisStorage
from limits.errors import StorageError

from service.settings import UnusableSettingError

if TYPE_CHECKING:
    from limits.aio.storage.redis.redispy import RedispyBridge
    from redis.asyncio import ConnectionPool

logger = logging.getLogger(__name__)

_SWEEP_SECONDS: Final = 60.0
_REDIS_SECONDS: Final = 0.5
"""A Redis that takes longer to answer is as good as gone: requests wait for it."""
_REDIS_PAUSE_SECONDS: Final = 5.0

T = TypeVar("T")


class _Memory(MemoryStorage):
    """Looks for what has expired once a minute; the library's own does so in all of it with every request."""

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

    async def prolong(self, key: str, expiry: float) -> None:
        """It does not expire before so many seconds have passed."""
        now = time.time()  # noqa: TID251  the library's clock
        self.expirations[key] = max(self.expirations.get(key, now), now + expiry)


class _Shared(RedisStorage):
    async def prolong(self, key: str, expiry: int) -> None:
        """As in memory; the library itself sets a time only once."""
        bridge = cast("RedispyBridge", self.bridge)
        name, redis = bridge.prefixed_key(key), bridge.get_connection()
        try:
            if await redis.ttl(name) < expiry:
                await redis.expire(name, expiry)
        except bridge.base_exceptions as error:
            raise StorageError(error) from error


Storage = _Memory | _Shared


class Counters:
    """Where what callers use is counted; while Redis does not answer, each server counts for itself."""

    def __init__(self, redis_url: str | None) -> None:
        self.own = _Memory()
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
                return await self._shared.check()
        except (StorageError, OSError):
            return False

    async def use(self, work: Callable[[Storage], Awaitable[T]]) -> T:
        """What `work` makes of the counters."""
        if self._shared is not None and time.monotonic() >= self._shared_from:
            try:
                async with asyncio.timeout(_REDIS_SECONDS):
                    return await work(self._shared)
            except (StorageError, OSError) as error:
                # Not asked for every request, each of which would wait.
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


def _shared(pool: "ConnectionPool") -> _Shared:
    # The pool says where it is; `limits` has a word for that only to tell the kinds of storage apart.
    return _Shared(
        "async+redis://",
        wrap_exceptions=True,
        implementation="redispy",
        connection_pool=pool,  # type: ignore[arg-type]
    )
