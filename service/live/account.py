"""The characters of a session's source: each is counted once, however often the source changes."""

import asyncio

from service.access.charges import Caller
from service.access.control import AccessControl


class LiveAccount:
    """Counts the source of one session up to the farthest position that it has reached."""

    def __init__(self, access: AccessControl, caller: Caller, start: int) -> None:
        self._access = access
        self._caller = caller
        self._reached = start
        self.one_change = asyncio.Lock()
        """Held while one writer's change is counted and made: of two at once, one would not be counted."""

    async def reach(self, end: int) -> None:
        """Count what the source has more than ever before. Raises what `AccessControl.charged` does."""
        if end > self._reached:
            async with self._access.charged(self._caller, end - self._reached, "append"):
                self._reached = end
