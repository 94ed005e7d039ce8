"""Access control: identifies callers and enforces their limits and quotas."""

import ipaddress
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Final, Literal, TypeVar

from service.access.async_key_store import AsyncKeyStore, this_month
from service.access.charges import Caller, Charge, Streamed, StreamSigner
from service.access.key_store import KeyLimits
from service.access.rate_limits import RateLimiter
from service.errors import (
    InvalidKey,
    KeyRequired,
    KeysUnavailable,
    QuotaExceeded,
    RateLimited,
    ServiceError,
    TooLong,
)
from service.settings import AccessSettings

logger = logging.getLogger(__name__)

Error = TypeVar("Error", bound=ServiceError)

Refusal = Literal["key_required", "invalid_key", "wrong_keys", "requests", "characters", "streams", "quota"]

_CUSTOMER_BITS: Final = 64
"""Prefix length of the IPv6 network that belongs to one customer, who has all its addresses."""
_STREAM_SECONDS: Final = 1
_WRONG_KEYS_PER_MINUTE: Final = 30
"""Limit of each address. A right key from the same address is not affected: others may share the address."""
_LONGEST_ADDRESS: Final = 64


class AccessControl:
    """The keys, limits and usage of one server. Raises `UnusableSettingError`."""

    def __init__(self, settings: AccessSettings, on_refusal: Callable[[Refusal], None] = lambda _: None) -> None:
        self._key_store = AsyncKeyStore(settings.keys)
        self._rate_limiter = RateLimiter(None if settings.redis_url is None else str(settings.redis_url))
        secret = settings.stream_secret
        self._signer = StreamSigner(self._key_store.secret if secret is None else secret.get_secret_value().encode())
        self._open_streams: Counter[str] = Counter()
        self._on_refusal = on_refusal
        self._anonymous_limits = KeyLimits(
            requests_per_minute=settings.anonymous_requests_per_minute,
            characters_per_minute=settings.anonymous_characters_per_minute,
            streams=settings.anonymous_streams,
        )
        self.has_keys = settings.keys is not None
        self.key_required = self.has_keys and not settings.anonymous

    async def aclose(self) -> None:
        """Wait for pending writes."""
        await self._key_store.aclose()
        await self._rate_limiter.aclose()

    async def problems(self) -> list[str]:
        """Describe settings that do not work at the moment, for people."""
        if not await self._rate_limiter.reachable():
            return ["redis_url: Redis does not answer"]
        return []

    async def admit(self, key: str | None, address: str | None) -> Caller:
        """Identify the caller by its key, or else by its address, and count a request.

        Raises `KeyRequired`, `InvalidKey`, `KeysUnavailable` and `RateLimited`.
        """
        caller = await self._caller(key, address)
        await self._count(caller, "requests", caller.limits.requests_per_minute, 1)
        return caller

    async def knows(self, key: str | None, address: str | None) -> bool:
        """Return True for a key of this server. Counts no request; a wrong key counts as one. Raises `RateLimited`."""
        if not self.has_keys or not key:
            return False
        try:
            await self._caller(key, address)
        except (InvalidKey, KeysUnavailable):
            return False
        return True

    async def _caller(self, key: str | None, address: str | None) -> Caller:
        if not self.has_keys or not key:
            if self.key_required:
                raise self._refused("key_required", KeyRequired())
            return Caller(f"address:{_customer(address)}", self._anonymous_limits)
        known = await self._key_store.find(key)
        if known is None:
            raise await self._wrong_key(address)
        return Caller(f"key:{known.label}", known.limits, known)

    async def _wrong_key(self, address: str | None) -> InvalidKey | RateLimited:
        """Count a wrong key of an address, and return the refusal."""
        limit = _WRONG_KEYS_PER_MINUTE
        wait = await self._rate_limiter.count(f"address:{_customer(address)}", "wrong_keys", limit, 1)
        if wait is None:
            return self._refused("invalid_key", InvalidKey())
        error = RateLimited(f"too many wrong API keys from this address: the limit is {limit} a minute", wait)
        return self._refused("wrong_keys", error)

    @asynccontextmanager
    async def charged(
        self, caller: Caller, characters: int, field: str = "q", stream: Streamed | None = None
    ) -> AsyncIterator[Charge]:
        """Count the characters of a translation before it begins; an error that leaves the context ends the charge.

        A stream that is resumed with a valid signature is not counted. Raises `RateLimited`, `QuotaExceeded`,
        `KeysUnavailable`, and for more than a minute's characters `TooLong`, which names `field`.
        """
        charge = await self._charge(caller, characters, field, stream)
        try:
            yield charge
        except BaseException as error:
            await charge.end(error)
            raise

    async def _charge(self, caller: Caller, characters: int, field: str, stream: Streamed | None) -> Charge:
        month = this_month()
        if stream is not None and self._signer.accepts(caller, stream):
            return Charge(self._key_store, caller, month, 0, stream)
        await self._count(caller, "characters", caller.limits.characters_per_minute, characters, field)
        if not await self._key_store.count(caller.key, month, characters):
            limit = caller.limits.characters_per_month
            error = QuotaExceeded(f"the limit is {limit} characters a month", _seconds_to_next_month())
            raise self._refused("quota", error)
        if stream is not None:
            stream = stream._replace(signature=self._signer.sign(caller, stream) if stream.name else "")
        return Charge(self._key_store, caller, month, characters, stream)

    @contextmanager
    def stream(self, caller: Caller) -> Iterator[None]:
        """Count one of the caller's streams for as long as the context lasts. Raises `RateLimited`."""
        limit, identity = caller.limits.streams, caller.identity
        if limit is not None and self._open_streams[identity] >= limit:
            error = RateLimited(f"too many streams: the limit is {limit} at once", _STREAM_SECONDS)
            raise self._refused("streams", error)
        self._open_streams[identity] += 1
        try:
            yield
        finally:
            self._open_streams[identity] -= 1
            if not self._open_streams[identity]:
                del self._open_streams[identity]

    async def characters_used(self, caller: Caller) -> int:
        """Return the characters of the key in this month; without a key, of all such callers since the server started.

        Raises `KeysUnavailable`.
        """
        return await self._key_store.used(caller.key)

    async def _count(
        self, caller: Caller, what: Literal["requests", "characters"], limit: int | None, cost: int, field: str = "q"
    ) -> None:
        if limit is None:
            return
        if cost > limit:
            raise self._refused(what, TooLong(field, f"{cost} {what}, the limit is {limit} a minute"))
        wait = await self._rate_limiter.count(caller.identity, what, limit, cost)
        if wait is not None:
            raise self._refused(what, RateLimited(f"too many {what}: the limit is {limit} a minute", wait))

    def _refused(self, reason: Refusal, error: Error) -> Error:
        self._on_refusal(reason)
        return error


def _seconds_to_next_month() -> int:
    now = datetime.now(UTC)
    first = datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)
    return int((first - now).total_seconds()) + 1


def _customer(address: str | None) -> str:
    """Return the unit whose limits an address shares: an IPv4 address or an IPv6 network."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:  # a Unix socket has no address, and proxies may send anything
        return (address or "unknown")[:_LONGEST_ADDRESS]
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.IPv6Network((int(parsed), _CUSTOMER_BITS), strict=False))
    return str(parsed)
