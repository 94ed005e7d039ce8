"""Priority of first tokens: requests that already stream wait a moment for requests that have no token yet."""

import asyncio
from collections.abc import Hashable
from contextlib import suppress
from typing import Final

_LONGEST_SECONDS: Final = 0.02
"""The longest time for which a long text waits, even if requests for a first token never end."""


class FirstTokenPriority:
    """The requests in this process that still wait for their first token."""

    def __init__(self) -> None:
        self._waiting: set[Hashable] = set()
        self._none_waiting = asyncio.Event()

    def expect(self, request: Hashable) -> None:
        """Add a request that waits."""
        self._waiting.add(request)
        self._none_waiting.clear()

    def arrived(self, request: Hashable) -> None:
        """Remove a request that has its first token, or is closed; may be called twice."""
        self._waiting.discard(request)
        if not self._waiting:
            self._none_waiting.set()

    async def wait_for_others(self) -> None:
        """Wait until no request waits, for 20 ms at most; always yield to the event loop once."""
        if not self._waiting:
            await asyncio.sleep(0)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_SECONDS):
                await self._none_waiting.wait()
