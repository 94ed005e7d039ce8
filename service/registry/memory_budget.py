"""How much memory all engines may take, and which model has to go when another one is asked for."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from service.errors import EngineFailed
from service.registry.entry import Entry, State
from service.registry.process_memory import MEGABYTE

logger = logging.getLogger(__name__)

_WAIT_SECONDS: Final = 0.05


class Room:
    """Keeps the engines of all models within `limit_bytes`, None for no limit.

    An idle model gives way, the least recently used first. A busy one never does: who needs its room waits.
    """

    def __init__(self, limit_bytes: int | None = None) -> None:
        self._limit = limit_bytes

    def has(self, entry: Entry, entries: Sequence[Entry]) -> bool:
        """Whether a model can be loaded beside those that are; raises `EngineFailed` if it could not even alone."""
        return self._limit is None or self._taken(entries) + self._needs(entry, self._limit) <= self._limit

    async def make(self, entry: Entry, entries: Sequence[Entry]) -> bool:
        """Wait until there is room, as long as anybody does; raises as `has`."""
        while not self.has(entry, entries):
            if not entry.is_wanted:
                return False
            if (idle := _least_recently_used(entries)) is None:
                await asyncio.sleep(_WAIT_SECONDS)
            else:
                await _unload(idle)
        return True

    def measure(self, entry: Entry) -> None:
        """What a model takes that has just been loaded; raises `EngineFailed` if it is more than there may be."""
        entry.needed_bytes = entry.memory_bytes
        if self._limit is not None:
            self._needs(entry, self._limit)

    async def tidy(self, entries: Sequence[Entry]) -> None:
        """Engines grow with the work they get: idle ones go, if they have grown over the limit."""
        while self._limit is not None and self._taken(entries) > self._limit:
            if (idle := _least_recently_used(entries)) is None:
                return
            await _unload(idle)

    @staticmethod
    def _taken(entries: Sequence[Entry]) -> int:
        return sum(entry.memory_bytes for entry in entries)

    @staticmethod
    def _needs(entry: Entry, limit: int) -> int:
        if entry.needed_bytes > limit:
            needed, most = entry.needed_bytes // MEGABYTE, limit // MEGABYTE
            raise EngineFailed(f"its engines take about {needed} MB, max_models_memory_mb is {most}")
        return entry.needed_bytes


def _least_recently_used(entries: Sequence[Entry]) -> Entry | None:
    idle = [(each.model.used_at, each) for each in entries if each.model and each.state is State.READY and each.is_idle]
    return min(idle, key=lambda item: item[0], default=(0.0, None))[1]


async def _unload(entry: Entry) -> None:
    assert entry.model is not None
    entry.state = State.UNLOADED
    logger.info("model unloaded to make room", extra={"model": entry.name})
    await entry.model.pool.stop()
