"""Live sessions: text that grows in, committed translation out, over as many connections as it takes."""

import asyncio
import queue
import threading
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Generic, Self, TypedDict, TypeVar

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, WebSocketException

from .events import ClientError, Error, Refused, Unreachable, error_of
from .resume import Retries

_FAILURES: Final = (OSError, TimeoutError, WebSocketException, ClientError)
_MOVES: Final = frozenset({"unknown_session", "not_ready"})
"""Errors after which another session goes on, here or on another server behind the same address."""

_CHANGE_SECONDS: Final = 30.0

R = TypeVar("R")


class LiveOptions(TypedDict, total=False):
    """The fields of a session's first message; the API's documentation explains each."""

    latency: str
    policy: str
    words: int
    share: float
    revise: bool
    beam_size: int
    glossary: Mapping[str, str]
    glossary_id: str


class Commit(msgspec.Struct, frozen=True, tag_field="event", tag="commit"):
    """More of the translation, which is never taken back."""

    text: str
    segment: int
    index: int
    source_end: int


class Draft(msgspec.Struct, frozen=True, tag_field="event", tag="draft"):
    """A guess of the text after the committed one; it holds until the next event."""

    text: str
    segment: int


class Sentence(msgspec.Struct, frozen=True, tag_field="event", tag="segment"):
    """A finished sentence: its source and its committed translation."""

    source: str
    text: str
    segment: int
    source_end: int


class Revision(msgspec.Struct, frozen=True, tag_field="event", tag="revision"):
    """The best translation of a finished sentence."""

    text: str
    segment: int


class Kept(msgspec.Struct, frozen=True, tag_field="event", tag="kept"):
    """A correction reached into source whose translation is committed up to `source_end`, which stays."""

    replace_from: int
    source_end: int


class Ended(msgspec.Struct, frozen=True, tag_field="event", tag="done"):
    """The end of the session."""

    segments: int
    source_end: int
    index: int


LiveEvent = Commit | Draft | Sentence | Revision | Kept | Ended


class _Numbered(msgspec.Struct, frozen=True):
    event: str
    id: int = 0
    session: str = ""


_decode_event: Final = msgspec.json.Decoder(LiveEvent).decode


class _Progress:
    """State that a new connection sends: the session, the unfinished source, and its committed translation."""

    def __init__(self, start: Mapping[str, object]) -> None:
        self._start = start
        self.session: str | None = None
        self._last_event = 0
        self._segment = self._index = self._source_start = 0
        self._committed = ""
        self._source = ""
        self._final_until = -1
        self._ends = False

    @property
    def end(self) -> int:
        """The length of the whole source."""
        return self._source_start + len(self._source)

    def change(self, change: Mapping[str, Any]) -> None:
        """Note a change of the source."""
        if "append" in change:
            self._source += change["append"]
        if "replace_from" in change:
            place = max(change["replace_from"] - self._source_start, 0)
            self._source = self._source[:place] + change["text"]
        if "final" in change:
            self._final_until = self.end
        self._ends = self._ends or "end" in change

    def first_messages(self) -> list[dict[str, object]]:
        """Return what begins a connection: the session goes on, or another one where it was."""
        key = {name: value for name, value in self._start.items() if name == "api_key"}
        if self.session is not None:
            first: dict[str, object] = {**key, "session": self.session, "last_event": self._last_event}
            return [first, {"replace_from": self._source_start, "text": self._source, **self._marks()}]
        first = {**self._start, "source_start": self._source_start, "segment": self._segment}
        first |= {"index": self._index, "committed": self._committed}
        return [first, {"append": self._source, **self._marks()}]

    def _marks(self) -> dict[str, object]:
        marks: dict[str, object] = {"final": self._final_until} if self._final_until > self._source_start else {}
        return marks | ({"end": True} if self._ends else {})

    def decode(self, message: str | bytes) -> LiveEvent | None:
        """Decode an event and note what it says; None for the start. Raises `ClientError`."""
        known = msgspec.json.decode(message, type=_Numbered)
        if known.event == "start":
            self.session = known.session
            return None
        if known.event == "error":
            raise error_of(msgspec.json.decode(message, type=Error))
        self._last_event = known.id or self._last_event
        event: LiveEvent = _decode_event(message)
        if isinstance(event, Commit):
            self._committed += event.text
        elif isinstance(event, Sentence):
            self._source = self._source[max(event.source_end - self._source_start, 0) :]
            self._source_start, self._segment = event.source_end, event.segment + 1
            self._index, self._committed = self._index + len(event.text), ""
        return event

    def move(self) -> None:
        """Begin another session with the next connection."""
        self.session, self._last_event = None, 0


class _Session(Generic[R]):
    """The source of a session, as its user changes it: `R` is None, or what is awaited for it."""

    def __init__(self, progress: _Progress) -> None:
        self._progress = progress

    @property
    def source_end(self) -> int:
        """The length of the source so far, in characters."""
        return self._progress.end

    def append(self, text: str) -> R:
        """Add text at the end of the source, with the white space between words."""
        return self._change({"append": text})

    def replace(self, position: int, text: str) -> R:
        """Replace the source from a position on: a correction. What is committed stays."""
        return self._change({"replace_from": position, "text": text})

    def finish_sentence(self) -> R:
        """Mark the source so far as final, and its last sentence as finished."""
        return self._change({"final": True})

    def end(self) -> R:
        """End the session: the rest is translated."""
        return self._change({"end": True})

    @abstractmethod
    def _change(self, change: dict[str, Any]) -> R: ...


class AsyncLive(_Session[Awaitable[None]]):
    """A live session. Change its source from any task; iterate over it for the events, the last one is `Ended`."""

    def __init__(self, url: str, start: Mapping[str, object], retries: int) -> None:
        super().__init__(_Progress(start))
        self._address = url.replace("http", "ws", 1) + "/translate/live"
        self._retries = Retries(url, retries)
        self._sending = asyncio.Lock()
        self._socket: ClientConnection | None = None

    async def _change(self, change: dict[str, Any]) -> None:
        async with self._sending:
            self._progress.change(change)
            if self._socket is not None:
                # After a failure, the next connection sends the whole unfinished source.
                with suppress(WebSocketException):
                    await self._socket.send(msgspec.json.encode(change), text=True)

    async def __aiter__(self) -> AsyncIterator[LiveEvent]:
        while True:
            try:
                async with connect(self._address) as socket:
                    async with self._sending:
                        for message in self._progress.first_messages():
                            await socket.send(msgspec.json.encode(message), text=True)
                        self._socket = socket
                    async for received in socket:
                        event = self._progress.decode(received)
                        self._retries.progress()
                        if event is not None:
                            yield event
                        if isinstance(event, Ended):
                            return
                raise Unreachable("the connection broke off")
            except _FAILURES as error:
                await asyncio.sleep(self._seconds_after(error))
            finally:
                self._socket = None

    def _seconds_after(self, error: Exception) -> float:
        if isinstance(error, Refused) and error.code in _MOVES:
            self._progress.move()
            error = Unreachable(str(error))
        elif isinstance(error, InvalidHandshake | OSError | TimeoutError | WebSocketException):
            error = Unreachable(f"{self._address}: {error or type(error).__name__}")
        return self._retries.seconds_after(error)


class Live(_Session[None]):
    """The same for threads: an `AsyncLive` in a thread of its own."""

    def __init__(self, url: str, start: Mapping[str, object], retries: int) -> None:
        self._live = AsyncLive(url, start, retries)
        super().__init__(self._live._progress)
        self._events: queue.SimpleQueue[LiveEvent | ClientError] = queue.SimpleQueue()
        self._has_ended = False
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._reading = self._loop.create_task(self._read())
        self._thread = threading.Thread(target=self._run, name="live session", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._runner:
            self._loop.run_until_complete(asyncio.wait([self._reading]))

    async def _read(self) -> None:
        try:
            async for event in self._live:
                self._events.put(event)
        except ClientError as error:
            self._events.put(error)

    def _change(self, change: dict[str, Any]) -> None:
        """Make a change; do nothing after the end."""
        if self._thread.is_alive() and not self._reading.done():
            with suppress(TimeoutError):  # the thread may end at this moment
                asyncio.run_coroutine_threadsafe(self._live._change(change), self._loop).result(_CHANGE_SECONDS)

    def __iter__(self) -> Iterator[LiveEvent]:
        """Yield events as they arrive, at last `Ended`. Raises `ClientError`."""
        while True:
            event = self._events.get()
            if isinstance(event, ClientError):
                raise event
            yield event
            if isinstance(event, Ended):
                self._has_ended = True
                return

    def close(self) -> None:
        """Leave the session."""
        if self._thread.is_alive() and not self._has_ended:
            self._loop.call_soon_threadsafe(self._reading.cancel)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
