"""What both clients do alike: what to ask again, when, and from where on. No input or output of its own."""

import math
import random
from collections.abc import Mapping
from typing import Final, TypeVar

import httpx
import msgspec
from httpx_sse import ServerSentEvent, SSEError

from service.client.errors import Busy, ClientError, NotDragoman, Refused, Unreachable
from service.client.events import Done, Error, Event, Translation, event_of, translations_of

DEFAULT_URL: Final = "http://127.0.0.1:5000"
# A stream says something every 15 seconds, if only that it is alive.
TIMEOUT: Final = httpx.Timeout(10.0, read=60.0)
RETRIES: Final = 5
_FIRST_WAIT_SECONDS: Final = 0.1
_LONGEST_WAIT_SECONDS: Final = 30.0
_BUSY_STATUSES: Final = frozenset({429, 502, 503})  # the second is a proxy whose server is gone

# What a stream or an answer can fail with; `Patience` tells which of them pass.
FAILURES: Final = (httpx.TransportError, httpx.StreamError, SSEError, ClientError)

T = TypeVar("T")


class Patience:
    """How long to wait before another attempt; failures count from the last progress."""

    def __init__(self, url: str, retries: int) -> None:
        self._url = url
        self._retries = retries
        self._failures = 0

    def progress(self) -> None:
        self._failures = 0

    def seconds_after(self, error: Exception) -> float:
        """Raises what ends the attempts: `error`, as one of ours."""
        ours = self._ours(error)
        asked = (ours.retry_after_seconds if isinstance(ours, Busy) else None) or 0.0
        hopeless = isinstance(ours, NotDragoman) or (isinstance(ours, Refused) and not isinstance(ours, Busy))
        if hopeless or self._failures >= self._retries or asked > _LONGEST_WAIT_SECONDS:
            raise ours from None
        wait = _FIRST_WAIT_SECONDS * math.pow(2, self._failures)
        self._failures += 1
        # Clients that were cut at the same moment shall not come back at the same moment.
        return max(asked, min(wait, _LONGEST_WAIT_SECONDS) * random.uniform(0.5, 1.0))

    def _ours(self, error: Exception) -> ClientError:
        match error:
            case ClientError():
                return error
            case SSEError():
                return NotDragoman(f"{self._url}: the answer is not a stream of events")
            case _:
                return Unreachable(f"{self._url}: {error or type(error).__name__}")


class Reading:
    """One stream over as many connections as it takes: what to ask next, and what has come."""

    def __init__(self, url: str, body: Mapping[str, object], retries: int) -> None:
        self.body = {**body, "stream": True}
        self.done: Done | None = None
        self._last_id: str | None = None
        self._patience = Patience(url, retries)

    @property
    def headers(self) -> dict[str, str]:
        return {} if self._last_id is None else {"Last-Event-ID": self._last_id}

    def take(self, received: ServerSentEvent) -> Event | None:
        """An event, or None for what is none: a keep-alive."""
        if not received.data:
            return None
        event = event_of(received.event, received.data)
        self._last_id = received.id or self._last_id
        self._patience.progress()
        if isinstance(event, Done):
            self.done = event
        return event

    def seconds_after(self, error: Exception) -> float:
        """What comes behind the last event is of no interest, a failure neither. Raises `ClientError`."""
        return 0.0 if self.done else self._patience.seconds_after(error)

    def ended(self) -> None:
        """The connection was closed in good order. Raises if something is missing all the same."""
        if self.done is None:
            raise httpx.RemoteProtocolError("the stream broke off")


def check(response: httpx.Response) -> None:
    """Raises `Refused` or `NotDragoman` for an error's answer; it must have been read."""
    if response.is_success:
        return
    status = response.status_code
    try:
        error = msgspec.json.decode(response.content, type=Error)
    except msgspec.DecodeError:
        error = None
    if status in _BUSY_STATUSES:
        # A proxy in front of a server says so as well, in words of its own.
        message, code = (error.error, error.code) if error else (f"HTTP status {status}", "busy")
        raise Busy(message, code, status, _retry_after(response))
    if error is None:
        raise NotDragoman(f"{response.url}: it does not answer like Dragoman (HTTP status {status})")
    raise Refused(error.error, error.code, status)


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds; a date, which HTTP allows too, counts as none."""
    value = response.headers.get("retry-after", "")
    return float(value) if value.isdecimal() else None


def decoded(response: httpx.Response, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(response.content, type=kind)
    except msgspec.DecodeError as error:
        raise NotDragoman(f"{response.url}: {error}") from None


class Server:
    """What both clients know: where the server is, who asks, and how often."""

    def __init__(self, url: str, api_key: str | None, retries: int) -> None:
        self.url = url.rstrip("/")
        self._key: dict[str, object] = {} if api_key is None else {"api_key": api_key}
        self._retries = retries

    def _reading(self, text: str | list[str], source: str, target: str, options: Mapping[str, object]) -> Reading:
        body = {"q": text, "source": source, "target": target, **options, **self._key}
        return Reading(self.url, body, self._retries)

    def _about(self, text: str) -> dict[str, object]:
        return {"q": text, **self._key}

    def _patience(self) -> Patience:
        return Patience(self.url, self._retries)


def translations(text: str | list[str], last: Event | None) -> Translation | list[Translation]:
    """In the shape of `text`, from the last event of its stream."""
    assert isinstance(last, Done), "a stream that ends without an error ends with Done"
    found = translations_of(last)
    return found[0] if isinstance(text, str) else found
