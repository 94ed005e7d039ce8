"""The events of a session: for its own reader, which may come back after a lost connection, and for followers."""

import asyncio
import time
from collections import deque
from itertools import islice
from typing import Final

from service.errors import NotReady, QueueFull, ServiceError
from service.live.events import Draft, Event

_KEPT_EVENTS: Final = 1_000
"""Events that a client may be behind, or miss while it has no connection."""
_MOST_FOLLOWERS: Final = 50


class EventLog:
    """The last events and the present draft of a session."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=_KEPT_EVENTS)
        self._count = 0
        self._draft = Draft(0, "")
        self._has_news = asyncio.Event()
        self._reader = 0
        self._following = -1
        self._followers = 0
        self._is_closed = False
        self._failure: ServiceError | None = None
        self.left_at: float | None = time.monotonic()
        """The time at which the last reader left; None while there is one."""

    def report(self, event: Event) -> None:
        self._events.append(event)
        self._count += 1
        self._has_news.set()

    def show(self, draft: Draft) -> None:
        """Replace the draft."""
        self._draft = draft
        self._has_news.set()

    def close(self, failure: ServiceError | None = None) -> None:
        """Say that there are no more events, and why; the first reason counts."""
        self._is_closed, self._failure = True, self._failure or failure
        self._has_news.set()

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    def attach(self) -> int:
        """Make the caller the only reader: `next` of an earlier one raises `NotReady`."""
        self._reader += 1
        self.left_at = None
        self._has_news.set()
        return self._reader

    def follow(self) -> tuple[int, int]:
        """Add a follower; return it and the number of events before the oldest that is kept. Raises `QueueFull`."""
        if self._followers >= _MOST_FOLLOWERS:
            raise QueueFull("the session has too many followers; try again later")
        self._followers += 1
        return self._following, self._count - len(self._events)

    def dismiss(self) -> None:
        """Let `next` of all followers raise `NotReady`: they find the session that has taken this one's alias."""
        self._following -= 1
        self._has_news.set()

    def detach(self, reader: int) -> None:
        """Note that a reader or follower has left."""
        if reader < 0:
            self._followers -= 1
        elif reader == self._reader:
            self.left_at = time.monotonic()

    async def next(self, reader: int, known: int, shown: str) -> tuple[list[Event], Draft | None]:
        """Wait for events after the first `known`, or another draft than the one `shown`; return both.

        Any event ends the draft that is shown, and all that there is then is returned. Without either, the session has
        ended. Raises `NotReady` if another reader has come or the events are not there any more, and the error that
        ended the session.
        """
        while True:
            if reader not in (self._reader, self._following):
                raise NotReady("another connection has taken the session over")
            if self._count - known > len(self._events):
                raise NotReady("the session's events have been overtaken; begin a new one")
            events = list(islice(self._events, len(self._events) - (self._count - known), None))
            draft = self._draft if self._draft.text != ("" if events else shown) else None
            if events or draft is not None:
                return events, draft
            if self._failure is not None:
                raise self._failure
            if self._is_closed:
                return [], None
            self._has_news.clear()
            await self._has_news.wait()
