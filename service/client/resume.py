"""Requests, retries and the resumption of streams, for both clients. Does no I/O."""

import math
import random
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

import httpx
import msgspec
from httpx_sse import ServerSentEvent, SSEError

from .events import (
    Busy,
    ClientError,
    Done,
    Error,
    Event,
    NotDragoman,
    Refused,
    Translation,
    Unreachable,
    event_of,
    translations_of,
)

DEFAULT_URL: Final = "http://127.0.0.1:5000"
# A server sends at least a comment line every 15 seconds.
TIMEOUT: Final = httpx.Timeout(10.0, read=60.0)
RETRIES: Final = 5
_FIRST_WAIT_SECONDS: Final = 0.1
_LONGEST_WAIT_SECONDS: Final = 30.0
_BUSY_STATUSES: Final = frozenset({429, 502, 503})  # a proxy without its server sends 502
_NO_SUCH_PATH: Final = "not_found"

# All failures of a request; `Retries` decides after which another attempt is worth while.
FAILURES: Final = (httpx.TransportError, httpx.StreamError, SSEError, ClientError)

T = TypeVar("T")
H = TypeVar("H")


class Retries:
    """The wait before the next attempt; failures are counted since the last progress."""

    def __init__(self, url: str, retries: int) -> None:
        self._url = url
        self._retries = retries
        self._failures = 0

    def progress(self) -> None:
        self._failures = 0

    def seconds_after(self, error: Exception) -> float:
        """Return the wait after a failure. Raises `error` as a `ClientError` if there is no further attempt."""
        ours = self._ours(error)
        requested = (ours.retry_after_seconds if isinstance(ours, Busy) else None) or 0.0
        permanent = isinstance(ours, NotDragoman) or (isinstance(ours, Refused) and not isinstance(ours, Busy))
        if permanent or self._failures >= self._retries or requested > _LONGEST_WAIT_SECONDS:
            raise ours from None
        wait = _FIRST_WAIT_SECONDS * math.pow(2, self._failures)
        self._failures += 1
        # Clients that lost their server at the same moment must not all return at once.
        return max(requested, min(wait, _LONGEST_WAIT_SECONDS) * random.uniform(0.5, 1.0))

    def _ours(self, error: Exception) -> ClientError:
        match error:
            case ClientError():
                return error
            case SSEError():
                return NotDragoman(f"{self._url}: the response is not a stream of events")
            case httpx.ConnectError():
                return Unreachable(f"{self._url}: no server answers there; is `dragoman serve` running? ({error})")
            case _:
                return Unreachable(f"{self._url}: {error or type(error).__name__}")


class ResumableStream:
    """A stream over as many connections as it takes: the next request, and the last event received."""

    def __init__(self, url: str, body: Mapping[str, object], retries: int) -> None:
        self.body = {**body, "stream": True}
        self.done: Done | None = None
        self._last_id: str | None = None
        self._retries = Retries(url, retries)

    @property
    def headers(self) -> dict[str, str]:
        return {} if self._last_id is None else {"Last-Event-ID": self._last_id}

    def decode(self, received: ServerSentEvent) -> Event | None:
        """Decode an event and note its id; None for a keep-alive comment."""
        if not received.data:
            return None
        event = event_of(received.event, received.data)
        self._last_id = received.id or self._last_id
        self._retries.progress()
        if isinstance(event, Done):
            self.done = event
        return event

    def seconds_after(self, error: Exception) -> float:
        """Return the wait after a failure; 0 after the last event. Raises `ClientError`."""
        return 0.0 if self.done else self._retries.seconds_after(error)

    def check_end(self) -> None:
        """Raise if the server closed the connection before the last event."""
        if self.done is None:
            raise httpx.RemoteProtocolError("the stream broke off")


def check(response: httpx.Response) -> None:
    """Raise `Refused` or `NotDragoman` for an error response, which must have been read."""
    if response.is_success:
        return
    status = response.status_code
    try:
        error = msgspec.json.decode(response.content, type=Error)
    except msgspec.DecodeError:
        error = None
    if status in _BUSY_STATUSES:
        # A proxy in front of a server also sends these, with another body.
        message, code = (error.message, error.code) if error else (f"HTTP status {status}", "busy")
        raise Busy(message, code, status, _retry_after(response))
    if error is not None and error.code == _NO_SUCH_PATH:
        message = f"{response.url}: there is no such path; give the server's address without a path"
        raise Refused(message, error.code, status)
    if error is None:
        raise NotDragoman(f"{response.url}: the response is not Dragoman's (HTTP status {status})")
    raise Refused(error.message, error.code, status)


def _retry_after(response: httpx.Response) -> float | None:
    """Return the seconds of the header; dates, which HTTP also allows, are ignored."""
    value = response.headers.get("retry-after", "")
    return float(value) if value.isdecimal() else None


def decoded(response: httpx.Response, kind: type[T]) -> T:
    """Return what a response that has been read holds. Raises as `check` does."""
    check(response)
    try:
        return msgspec.json.decode(response.content, type=kind)
    except msgspec.DecodeError as error:
        raise NotDragoman(f"{response.url}: {error}") from None


def _with_scheme(url: str) -> str:
    full = url if "://" in url else f"http://{url}"
    try:
        parsed = httpx.URL(full)
    except httpx.InvalidURL as error:
        raise Unreachable(f"{url}: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise Unreachable(f"{url}: is not the URL of a server; use HOST:PORT, http://... or https://...")
    return full


class BaseClient(Generic[H]):
    """Parameters and bodies of requests, which both clients share."""

    _connect: Callable[..., H]
    """httpx's client."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        timeout: httpx.Timeout | float = TIMEOUT,
        retries: int = RETRIES,
    ) -> None:
        """Raise `Unreachable` for a wrong URL; `http://` may be missing."""
        self.url = _with_scheme(url).rstrip("/")
        self._key: dict[str, object] = {} if api_key is None else {"api_key": api_key}
        self._retries = retries
        self._http: H = self._connect(base_url=self.url, timeout=timeout)

    def _resumable(
        self, text: str | list[str], source: str, target: str, options: Mapping[str, object]
    ) -> ResumableStream:
        body = {"q": text, "source": source, "target": target, **options, **self._key}
        return ResumableStream(self.url, body, self._retries)


def translations(text: str | list[str], last: Event | None) -> Translation | list[Translation]:
    """Return the translations of the last event in the shape of `text`."""
    assert isinstance(last, Done), "a stream that ends without an error ends with Done"
    found = translations_of(last)
    return found[0] if isinstance(text, str) else found
