"""The memory limit of all engines, and the choice of the model that is unloaded to make room for another one."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from service.errors import EngineFailed
from service.registry.model_version import ModelVersion, State
from service.registry.process_memory import MEGABYTE

logger = logging.getLogger(__name__)

_WAIT_SECONDS: Final = 0.05


class MemoryBudget:
    """Keeps the engines of all models within `limit_bytes`; None is no limit.

    Idle models are evicted, the least recently used first. Busy models never are: requests for another model wait.
    """

    def __init__(self, limit_bytes: int | None = None) -> None:
        self._limit = limit_bytes

    def fits(self, version: ModelVersion, versions: Sequence[ModelVersion]) -> bool:
        """Return True if a model fits beside the loaded ones; raises `EngineFailed` if it would not fit alone."""
        return self._limit is None or self._used(versions) + self._needed(version, self._limit) <= self._limit

    async def make_room(self, version: ModelVersion, versions: Sequence[ModelVersion]) -> bool:
        """Wait until a model fits; False if no request waits for it any more. Raises as `fits` does."""
        while not self.fits(version, versions):
            if not version.has_requests:
                return False
            if (idle := _least_recently_used(versions)) is None:
                await asyncio.sleep(_WAIT_SECONDS)
            else:
                await _unload(idle)
        return True

    def measure(self, version: ModelVersion) -> None:
        """Record the memory of a model that was just loaded; raises `EngineFailed` if it is over the limit."""
        version.measure()
        if self._limit is not None:
            self._needed(version, self._limit)

    async def shrink(self, versions: Sequence[ModelVersion]) -> None:
        """Evict idle models if loaded ones have grown over the limit: engines grow with their work."""
        while self._limit is not None and self._used(versions) > self._limit:
            if (idle := _least_recently_used(versions)) is None:
                return
            await _unload(idle)

    @staticmethod
    def _used(versions: Sequence[ModelVersion]) -> int:
        return sum(version.memory_bytes for version in versions)

    @staticmethod
    def _needed(version: ModelVersion, limit: int) -> int:
        if version.needed_bytes > limit:
            needed, most = version.needed_bytes // MEGABYTE, limit // MEGABYTE
            raise EngineFailed(f"its engines take about {needed} MB, max_models_memory_mb is {most}")
        return version.needed_bytes


def _least_recently_used(versions: Sequence[ModelVersion]) -> ModelVersion | None:
    idle = (each for each in versions if each.state is State.READY and each.is_idle)
    return min(idle, key=lambda each: each.used_at, default=None)


async def _unload(version: ModelVersion) -> None:
    assert version.model is not None
    version.evicted()
    logger.info("model unloaded to make room", extra={"model": version.name})
    await version.model.pool.stop()
