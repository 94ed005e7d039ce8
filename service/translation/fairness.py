"""Who waits for a first token, and how long others let them go first."""

import asyncio
from collections.abc import Hashable
from contextlib import suppress
from typing import Final

_LONGEST_SECONDS: Final = 0.02
"""Where there is always somebody who waits, a long text goes on so often at least."""


class FirstTokens:
    """Those of one process whose translation has not begun to come."""

    def __init__(self) -> None:
        self._waiting: set[Hashable] = set()
        self._nobody_waits = asyncio.Event()

    def expect(self, who: Hashable) -> None:
        self._waiting.add(who)
        self._nobody_waits.clear()

    def has_come(self, who: Hashable) -> None:
        """Or is not expected any more; may be called again."""
        self._waiting.discard(who)
        if not self._waiting:
            self._nobody_waits.set()

    async def give_way(self) -> None:
        """Until nobody waits, for a while at most; others always get their turn on the event loop."""
        if not self._waiting:
            await asyncio.sleep(0)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_SECONDS):
                await self._nobody_waits.wait()
