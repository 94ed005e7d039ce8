"""Waiting, for a limited time, for what another process does."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

_Found = TypeVar("_Found")


def wait_for(
    look: Callable[[], _Found], seconds: float = 180, pause: float = 0.02, otherwise: Callable[[], object] | None = None
) -> _Found:
    """Call `look` until its result counts as true; return that result.

    Raises:
        AssertionError: It is still false after so many seconds; the message is the result of `otherwise`.
    """
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, otherwise() if otherwise else f"not within {seconds} s"
        time.sleep(pause)
    return found


async def until(look: Callable[[], _Found], seconds: float = 180, pause: float = 0.01) -> _Found:
    """Do the same without holding up the event loop. A `pause` of 0 looks in each of its turns."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        await asyncio.sleep(pause)
    return found
