"""Canaries: requests whose translations are known, sent again and again; each must come back token for token."""

import asyncio
import random
import secrets
import time
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import httpx
from httpx_sse import ServerSentEvent, SSEError, aconnect_sse

from loadtest.local_server import StreamedTranslation
from loadtest.sentences import LANGUAGES, SENTENCES

_OPTIONS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"beam_size": 4},
    {"temperature": 0.9, "top_p": 0.9, "seed": 7},
    {"no_repeat_ngram_size": 3, "repetition_penalty": 1.1},
)
_TIMES_LONGER: Final = 5
_PATIENCE_SECONDS: Final = 60.0
"""Longest time without an event, refusals and lost connections included."""
_CONNECTIONS: Final = 30
"""Connections that one stream may lose."""
_HANG_UP: Final = 0.002
"""The probability at each event that the canary itself breaks its connection off."""
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


class Broken(Exception):
    """A canary did not get what it was promised."""


@dataclass
class Reading:
    """A stream so far, over as many connections as it takes."""

    texts: list[str] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    events: int = 0
    last_id: str = ""
    progress_at: float = field(default_factory=time.monotonic)
    """Time of the last event; before the first one, time of the start."""
    connections: int = 0

    def take(self, event: ServerSentEvent) -> StreamedTranslation | None:
        """Take the next event; return the translation with the last one. Raises `Broken`."""
        data = event.json()
        if event.event == "error":
            raise Broken(f"error {data['code']}")
        number, _, signature = event.id.partition("-")
        if number != str(self.events):
            raise Broken(f"event {event.id} where {self.events} was due")
        if self.last_id and signature != self.last_id.partition("-")[2]:
            raise Broken(f"event {event.id} has another signature: the resumption was charged")
        self.events += 1
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
    """Outcomes of all canaries, which send `key`: so their charges can be compared with their answers."""

    key: str
    rng: random.Random
    alone: list[tuple[Canary, StreamedTranslation]] = field(default_factory=list)
    """The canaries, and their translations without faults."""
    asked: int = 0
    identical: int = 0
    refused: int = 0
    resumed: int = 0
    """Connections that went on with a stream that another one had begun."""
    characters: int = 0
    """Characters of the texts whose translation has come to its end."""
    characters_lost: int = 0
    """Characters of connections that were lost before the first event: a killed server may have charged them."""
    longest_loss_seconds: float = 0.0
    """The longest time between the last event of a connection and the next event, on another one."""
    ids: dict[str, float] = field(default_factory=dict)
    """Ids of the requests that were answered to their end, and when: the server's log must have each once, as `ok`."""
    problems: list[str] = field(default_factory=list)

    async def check(self, client: httpx.AsyncClient) -> None:
        """Translate one of the canaries, and compare."""
        canary, expected = self.rng.choice(self.alone)
        self.asked += 1
        try:
            translation = await self.translate(client, canary)
        except (Broken, SSEError, httpx.HTTPError) as error:
            self.problems.append(f"canary {canary.text[:40]!r} {canary.options}: {type(error).__name__} {error}")
            return
        if translation == expected:
            self.identical += 1
        else:
            self.problems.append(f"canary {canary.text[:40]!r} {canary.options}: another text or log-probability")

    async def translate(self, client: httpx.AsyncClient, canary: Canary) -> StreamedTranslation:
        """Translate as a stream: wait while refused, and resume what breaks off, both a bounded number of times.

        Raises `Broken`, and the errors of a server that sends something else than events.
        """
        reading = Reading()
        while True:
            try:
                if (translation := await self._read(client, canary, reading)) is not None:
                    self.characters += len(canary.text)
                    return translation
            except httpx.TransportError as error:
                if not reading.last_id and not isinstance(error, httpx.ConnectError):
                    self.characters_lost += len(canary.text)
                if reading.connections > _CONNECTIONS:
                    raise Broken(f"broken off {reading.connections} times: {error!r}") from None
            if time.monotonic() > reading.progress_at + _PATIENCE_SECONDS:
                raise Broken(f"refused or without an event for {_PATIENCE_SECONDS:.0f} s")
            await asyncio.sleep(_RETRY_SECONDS)

    async def _read(self, client: httpx.AsyncClient, canary: Canary, reading: Reading) -> StreamedTranslation | None:
        """Read one connection; return the translation with its end, None if it was refused."""
        request_id = secrets.token_hex(8)
        headers = {"X-Request-ID": request_id, "Authorization": f"Bearer {self.key}"}
        if reading.last_id:
            headers["Last-Event-ID"] = reading.last_id
        body = {"q": canary.text, **LANGUAGES, "stream": True, **canary.options}
        async with aconnect_sse(client, "POST", "/translate", json=body, headers=headers) as source:
            status = source.response.status_code
            if status in (429, 503) and "retry-after" in source.response.headers:
                self.refused += 1
                return None
            if status != httpx.codes.OK:
                raise Broken(f"status {status}, or refused without Retry-After")
            reading.connections += 1
            self.resumed += bool(reading.last_id)
            lost_at = reading.progress_at if reading.last_id else None
            async for event in source.aiter_sse():
                if not event.data:
                    continue  # httpx-sse makes an event of the keep-alive comment
                if self.rng.random() < _HANG_UP:
                    raise httpx.ReadError("the canary hangs up")
                if lost_at is not None:
                    self.longest_loss_seconds = max(self.longest_loss_seconds, time.monotonic() - lost_at)
                    lost_at = None
                if (translation := reading.take(event)) is not None:
                    self.ids[request_id] = time.monotonic()
                    return translation
        raise httpx.RemoteProtocolError("a stream without an end")
