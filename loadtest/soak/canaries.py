"""Canaries: requests whose translations are known, sent again and again; each must come back token for token."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import httpx
from httpx_sse import ServerSentEvent, SSEError, aconnect_sse

from loadtest.local_server import StreamedTranslation
from loadtest.sentences import LANGUAGES, SENTENCES
from loadtest.soak.wire import new_id

_OPTIONS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"beam_size": 4},
    {"temperature": 0.9, "top_p": 0.9, "seed": 7},
    {"no_repeat_ngram_size": 3, "repetition_penalty": 1.1},
)
_TIMES_LONGER: Final = 5
_PATIENCE_SECONDS: Final = 60.0
"""Longest time without an event, refusals and lost connections included."""
_CONNECTIONS: Final = 20
"""Connections that one stream may lose."""
_RETRY_SECONDS: Final = 0.2


class Canary(NamedTuple):
    text: str
    options: dict[str, Any]


def canaries(count: int) -> list[Canary]:
    """Return single sentences and short texts, with each kind of decoding."""
    return [
        Canary(
            " ".join(SENTENCES[(3 * number + k) % len(SENTENCES)] for k in range(1 + (number % 2) * _TIMES_LONGER)),
            _OPTIONS[number % len(_OPTIONS)],
        )
        for number in range(count)
    ]


class Answered(NamedTuple):
    """A canary's translation, and its seconds since it was admitted."""

    translation: StreamedTranslation
    seconds: float


class Broken(Exception):
    """A canary did not get what it was promised."""


@dataclass
class Reading:
    """A stream so far, over as many connections as it takes."""

    canary: Canary
    texts: list[str] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    last_number: int = -1
    last_id: str = ""
    admitted_at: float | None = None
    progress_at: float = field(default_factory=time.monotonic)
    """Time of the last event; before the first one, time of the start."""
    connections: int = 0
    times_charged_again: int = 0
    """Resumptions whose events have a new signature: the server has not accepted the one before."""

    def take(self, event: ServerSentEvent) -> StreamedTranslation | None:
        """Take the next event; return the translation with the last one. Raises `Broken`."""
        data = event.json()
        if event.event == "error":
            raise Broken(f"error {data['code']}")
        # The last event is sent again to a client that has it already.
        number, _, suffix = event.id.partition("-")
        if number != str(self.last_number + 1):
            raise Broken(f"event {event.id} where {self.last_number + 1} was due")
        if self.last_id and suffix != self.last_id.partition("-")[2]:
            self.times_charged_again += 1
        self.last_number += 1
        self.last_id = event.id
        self.progress_at = time.monotonic()
        if event.event == "token":
            self.texts.append(data["text"])
            self.logprobs.append(data["logprob"])
        elif event.event == "done":
            if "".join(self.texts) != data["translatedText"]:
                raise Broken("the tokens give another text than the end")
            return StreamedTranslation("".join(self.texts), tuple(self.logprobs))
        return None


@dataclass
class Tally:
    """Outcomes of all canaries."""

    key: str = ""
    """The API key that pays for them, so that charges can be compared with answers."""
    asked: int = 0
    identical: int = 0
    refused: int = 0
    resumed: int = 0
    """Connections that went on with a stream that another one had begun."""
    characters: int = 0
    """Characters of the texts whose translation has come to its end."""
    characters_again: int = 0
    """Characters that were charged again by resumptions."""
    characters_lost: int = 0
    """Characters of connections that were lost before the first event: a killed server may have charged them."""
    longest_pause_seconds: float = 0.0
    """The longest pause between two events of one connection."""
    longest_loss_seconds: float = 0.0
    """The longest time between the last event of a connection and the next event, on another one."""
    ids: dict[str, float] = field(default_factory=dict)
    """Ids of the requests that were answered to their end, and when: the server's log must have each once, as `ok`."""
    problems: list[str] = field(default_factory=list)
    in_flight: dict[str, float] = field(default_factory=dict)
    """Time at which each running request was sent."""

    @contextmanager
    def sent(self, request_id: str) -> Iterator[None]:
        """Mark a request as in flight inside of the context."""
        self.in_flight[request_id] = time.monotonic()
        try:
            yield
        finally:
            del self.in_flight[request_id]

    async def check(self, client: httpx.AsyncClient, canary: Canary, expected: StreamedTranslation) -> float | None:
        """Translate and compare; return the seconds since the canary was admitted, None if it broke."""
        self.asked += 1
        try:
            translation, seconds = await self.translate(client, canary)
        except (Broken, SSEError, httpx.HTTPError) as error:
            self.problems.append(f"canary {canary.text[:40]!r} {canary.options}: {type(error).__name__} {error}")
            return None
        if translation == expected:
            self.identical += 1
        else:
            self.problems.append(f"canary {canary.text[:40]!r} {canary.options}: another text or log-probability")
        return seconds

    async def translate(self, client: httpx.AsyncClient, canary: Canary) -> Answered:
        """Translate as a stream: wait while refused, and resume what breaks off, both a bounded number of times.

        Raises `Broken`, and the errors of a server that sends something else than events.
        """
        reading = Reading(canary)
        with self.sent(new_id()):
            while True:
                try:
                    translation = await self._read(client, reading)
                except httpx.TransportError as error:
                    translation = None
                    if not reading.last_id and not isinstance(error, httpx.ConnectError):
                        self.characters_lost += len(canary.text)
                    if reading.connections > _CONNECTIONS:
                        raise Broken(f"broken off {reading.connections} times: {error!r}") from None
                if translation is not None and reading.admitted_at is not None:
                    self.characters += len(canary.text)
                    self.characters_again += reading.times_charged_again * len(canary.text)
                    return Answered(translation, time.monotonic() - reading.admitted_at)
                if time.monotonic() > reading.progress_at + _PATIENCE_SECONDS:
                    raise Broken(f"refused or without an event for {_PATIENCE_SECONDS:.0f} s")
                await asyncio.sleep(_RETRY_SECONDS)

    async def _read(self, client: httpx.AsyncClient, reading: Reading) -> StreamedTranslation | None:
        """Read one connection; return the translation with its end, None if it was refused."""
        request_id = new_id()
        headers = {"X-Request-ID": request_id}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        is_resumed = bool(reading.last_id)
        if is_resumed:
            headers["Last-Event-ID"] = reading.last_id
        body = {"q": reading.canary.text, **LANGUAGES, "stream": True, **reading.canary.options}
        async with aconnect_sse(client, "POST", "/translate", json=body, headers=headers) as source:
            if _is_refused(source.response):
                self.refused += 1
                return None
            reading.connections += 1
            reading.admitted_at = reading.admitted_at or time.monotonic()
            self.resumed += is_resumed
            last_event_at: float | None = None
            async for event in source.aiter_sse():
                if not event.data:
                    continue  # httpx-sse makes an event of the keep-alive comment
                now = time.monotonic()
                if last_event_at is not None:
                    self.longest_pause_seconds = max(self.longest_pause_seconds, now - last_event_at)
                elif is_resumed:
                    self.longest_loss_seconds = max(self.longest_loss_seconds, now - reading.progress_at)
                last_event_at = now
                if (translation := reading.take(event)) is not None:
                    self.ids[request_id] = now
                    return translation
        raise httpx.RemoteProtocolError("a stream without an end")


def _is_refused(response: httpx.Response) -> bool:
    """Return whether the request was refused; raises `Broken` for any other failure, and without `Retry-After`."""
    if response.status_code in (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE):
        if "retry-after" not in response.headers:
            raise Broken("refused without Retry-After")
        return True
    if response.status_code != httpx.codes.OK:
        raise Broken(f"status {response.status_code}")
    return False
