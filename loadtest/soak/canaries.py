"""Translations that are known, asked for again and again: each must come back token for token."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import httpx
from httpx_sse import SSEError, aconnect_sse

from loadtest.local_server import Said
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
"""Longest time from the first refusal to admission."""


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


class Told(NamedTuple):
    """A canary's translation, and its seconds since it was admitted."""

    said: Said
    seconds: float


class Broken(Exception):
    """A canary did not get what it was promised."""


@dataclass
class Tally:
    """Outcomes of all canaries."""

    asked: int = 0
    identical: int = 0
    refused: int = 0
    longest_pause_seconds: float = 0.0
    ids: list[str] = field(default_factory=list)
    """Ids of the requests that were answered to their end: the server's log must have each once, as `ok`."""
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

    async def ask(self, client: httpx.AsyncClient, canary: Canary, expected: Said) -> float | None:
        """Ask until it is let in, and compare. The seconds from there; None where it broke."""
        self.asked += 1
        try:
            said, seconds = await self.say(client, canary)
        except (Broken, SSEError, httpx.HTTPError) as error:
            self.problems.append(f"canary {canary.text[:40]!r} {canary.options}: {type(error).__name__} {error}")
            return None
        if said == expected:
            self.identical += 1
        else:
            self.problems.append(f"canary {canary.text[:40]!r} {canary.options}: another text or log-probability")
        return seconds

    async def say(self, client: httpx.AsyncClient, canary: Canary) -> Told:
        """Send until it is admitted. Raises `Broken`, and the connection's errors."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (told := await self._try(client, canary)) is None:
            self.refused += 1
            if time.monotonic() > deadline:
                raise Broken(f"refused for {_PATIENCE_SECONDS:.0f} s")
            await asyncio.sleep(0.2)
        return told

    async def _try(self, client: httpx.AsyncClient, canary: Canary) -> Told | None:
        """Send once; return None if it is refused, which is allowed."""
        request_id = new_id()
        with self.sent(request_id):
            started = self.in_flight[request_id]
            said = await self._stream(client, canary, request_id)
            return said and Told(said, time.monotonic() - started)

    async def _stream(self, client: httpx.AsyncClient, canary: Canary, request_id: str) -> Said | None:
        pieces: list[str] = []
        logprobs: list[float] = []
        body = {"q": canary.text, **LANGUAGES, "stream": True, **canary.options}
        async with aconnect_sse(
            client, "POST", "/translate", json=body, headers={"X-Request-ID": request_id}
        ) as source:
            if _is_refused(source.response):
                return None
            heard = time.monotonic()
            number = -1
            async for event in source.aiter_sse():
                if not event.data:
                    continue  # httpx-sse makes an event of the keep-alive comment
                now, number, data = time.monotonic(), number + 1, event.json()
                self.longest_pause_seconds = max(self.longest_pause_seconds, now - heard)
                heard = now
                if event.id != str(number):
                    raise Broken(f"event {event.id} where {number} was due")
                if event.event == "token":
                    pieces.append(data["text"])
                    logprobs.append(data["logprob"])
                elif event.event == "error":
                    raise Broken(f"error {data['code']}")
                elif event.event == "done":
                    if "".join(pieces) != data["translatedText"]:
                        raise Broken("the tokens give another text than the end")
                    self.ids.append(request_id)
                    return Said("".join(pieces), tuple(logprobs))
        raise Broken("a stream without an end")


def _is_refused(response: httpx.Response) -> bool:
    """Return whether the request was refused; raises `Broken` for any other failure, and without `Retry-After`."""
    if response.status_code in (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE):
        if "retry-after" not in response.headers:
            raise Broken("refused without Retry-After")
        return True
    if response.status_code != httpx.codes.OK:
        raise Broken(f"status {response.status_code}")
    return False
