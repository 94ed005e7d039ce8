"""Stalls of the soak itself: a busy machine may hold it up for longer than the server waits for a client."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_TICK_SECONDS: Final = 0.1


class Stalls:
    """The longest delays of the event loop's timers, which are the longest times in which no client here did anything.

    `allowed_seconds` is how long the server waits for a client that sends or reads nothing.
    """

    def __init__(self, allowed_seconds: float) -> None:
        self._allowed_seconds = allowed_seconds
        self._due = 0.0
        self._last_end = float("-inf")
        self._timer: asyncio.TimerHandle
        self.longest_seconds = 0.0

    def was_too_long_since(self, moment: float) -> bool:
        """Return True if a stall longer than the server waits has ended at or after `moment`."""
        return self._last_end >= moment

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the running event loop for the context."""
        loop = asyncio.get_running_loop()

        # Not a task: the loop calls a timer that is due before it resumes the tasks whose data has arrived meanwhile.
        def tick() -> None:
            now = time.monotonic()
            late = now - self._due
            self.longest_seconds = max(self.longest_seconds, late)
            if late + _TICK_SECONDS > self._allowed_seconds:
                self._last_end = now
            self._due = now + _TICK_SECONDS
            self._timer = loop.call_later(_TICK_SECONDS, tick)

        self._due = time.monotonic()
        tick()
        try:
            yield
        finally:
            self._timer.cancel()
