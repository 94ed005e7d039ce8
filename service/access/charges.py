"""The characters of translations: counted before one begins, given back if the server fails it.

A counted stream is resumed free of charge: the ids of its events carry a signature of the caller, the request and the
end of its validity. No server stores it, and each one that has the secret accepts it.
"""

import base64
import hmac
import time
from dataclasses import dataclass
from typing import Final, NamedTuple

from service.access.async_key_store import AsyncKeyStore
from service.access.key_store import Key, KeyLimits
from service.errors import CallerLeft, DeadlineExceeded, NotReady, QueueFull, is_error

_AFTERWARDS_SECONDS: Final = 300
"""A client that lost its connection may resume for so long after the stream's deadline."""
_EXPIRY_BYTES: Final = 5
_MAC_BYTES: Final = 13
"""With the expiry 18 bytes, which are 24 characters of base64."""
_LENGTH: Final = 24
_PASSING: Final = (DeadlineExceeded, NotReady, QueueFull)
"""Errors after which a resumed stream goes on. What fails otherwise would fail again."""


@dataclass(frozen=True)
class Caller:
    """A caller: the owner of a key, or an address without one. `identity` tells callers apart; it is no secret."""

    identity: str
    limits: KeyLimits
    key: Key | None = None

    @property
    def is_counted(self) -> bool:
        """True if a stream of the caller costs something that its resumption does not."""
        return self.key is not None or self.limits.characters_per_minute is not None


class Streamed(NamedTuple):
    """A request for a stream. `signature` is the one that a resumption brings, "" without.

    `name` is a hash of the text and the options, "" for a stream that cannot be resumed or need not be signed; the
    stream takes no longer than `seconds`.
    """

    name: str = ""
    seconds: float = 0.0
    signature: str = ""


class StreamSigner:
    """Signs streams with a secret; whoever resumes one with its signature has paid for it."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, caller: Caller, stream: Streamed) -> str:
        return self._signature(caller, stream, int(_now() + stream.seconds) + 1 + _AFTERWARDS_SECONDS)

    def accepts(self, caller: Caller, stream: Streamed) -> bool:
        """Return True if the stream's signature was made for this caller and request, and has not expired."""
        if len(stream.signature) != _LENGTH or not stream.name:
            return False
        expires_at = int.from_bytes(base64.urlsafe_b64decode(stream.signature)[:_EXPIRY_BYTES])
        signed = self._signature(caller, stream, expires_at)
        return hmac.compare_digest(signed, stream.signature) and _now() < expires_at

    def _signature(self, caller: Caller, stream: Streamed, expires_at: int) -> str:
        expiry = expires_at.to_bytes(_EXPIRY_BYTES)
        # Only the identity may have any characters, so it comes last.
        signed = expiry + f"{stream.name}\n{caller.identity}".encode()
        return base64.urlsafe_b64encode(expiry + hmac.digest(self._secret, signed, "sha256")[:_MAC_BYTES]).decode()


def _now() -> float:
    return time.time()  # noqa: TID251  servers on several machines have no other clock together


class Charge:
    """The characters counted for one translation; none for a resumption. `signature` is for the ids of its events."""

    def __init__(
        self, key_store: AsyncKeyStore, caller: Caller, month: str, counted: int, stream: Streamed | None
    ) -> None:
        self.signature = "" if stream is None else stream.signature
        self._key_store = key_store
        self._caller = caller
        self._month = month
        self._counted = counted
        self._is_stream = stream is not None

    async def end(self, error: BaseException, sent: int | None = None) -> None:
        """End with an error: give back what the server failed. Only the first end counts. Raises nothing.

        A stream that has begun has `sent` the translation of so many characters.
        """
        await self.give_back(kept=self._kept(error, sent))

    async def give_back(self, kept: int = 0) -> None:
        """End, and give back all but the characters that are kept. Only the first end counts. Raises nothing."""
        counted, self._counted = self._counted, 0
        if counted > kept:
            await self._key_store.give_back(self._caller.key, self._month, counted - kept)

    def _kept(self, error: BaseException, sent: int | None) -> int:
        if isinstance(error, CallerLeft):
            # Without an event a stream cannot be resumed, and its client may have lost the server, not left.
            return self._counted if sent is not None or not self._is_stream else 0
        # What can be resumed for nothing is paid: else who sets short deadlines would pay beginnings, and get all.
        goes_on = self.signature and sent is not None and isinstance(error, _PASSING)
        if goes_on or not is_error(error):
            return self._counted
        return sent if sent and isinstance(error, DeadlineExceeded) else 0
