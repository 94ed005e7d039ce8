"""The characters of a session's source: each is counted once, however often the source changes."""

from typing import Final

from service.access.charges import Caller, Charge
from service.access.control import AccessControl
from service.access.key_store import Usage

_BLOCK: Final = 256
"""Characters that are counted ahead for callers without limits: a key file is not written for each word."""


class LiveAccount:
    """Counts the source of one session up to the farthest position that it has reached."""

    def __init__(self, access: AccessControl, caller: Caller, start: int) -> None:
        self._access = access
        self._caller = caller
        self._start = self._reached = self._paid = start
        self._last: Charge | None = None
        self._last_start = start

    async def reach(self, end: int) -> None:
        """Count what the source has more than ever before. Raises what `AccessControl.charged` does."""
        if end > self._paid:
            limits = self._caller.limits
            is_limited = limits.characters_per_minute is not None or limits.characters_per_month is not None
            block = max(end - self._paid, 0 if is_limited else _BLOCK)
            async with self._access.charged(self._caller, block, "append") as charge:
                self._last = charge
            self._last_start, self._paid = self._paid, self._paid + block
        self._reached = max(self._reached, end)

    async def close(self) -> None:
        """Give back what was counted ahead."""
        if self._last is not None:
            await self._last.give_back(kept=Usage(1, max(self._reached - self._last_start, 0)))
