"""Making a version of a model ready for requests: its checkpoint, its tokenizer, its engines. Knows no routes."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from model.checkpoint_config import CheckpointError
from service.errors import ServiceError
from service.hub.names import HubOptions
from service.registry.importing import import_in_background
from service.registry.memory_budget import MemoryBudget
from service.registry.model_version import ModelVersion
from service.registry.process_memory import estimated_bytes
from service.registry.pulling import pull_in_background
from service.registry.scan import FoundModel
from service.registry.served_model import ServedModel

logger = logging.getLogger(__name__)

UNEXPECTED: Final = "unexpected error, see the log"

Build = Callable[[FoundModel, Path], ServedModel]
"""Builds the served model of a native checkpoint, without starting engines; raises `CheckpointError`."""


class ModelLoader:
    """Loads models within a memory budget.

    One model is imported and one is loaded at a time: both need more memory than a loaded model.
    """

    def __init__(self, build: Build, budget: MemoryBudget, versions: Sequence[ModelVersion], hub: HubOptions) -> None:
        """`versions` are all versions of the server, which share the budget; the list changes as models come and go."""
        self._build = build
        self._budget = budget
        self._versions = versions
        self._hub = hub
        self._importing = asyncio.Lock()
        self._loading = asyncio.Lock()

    async def prepare(self, version: ModelVersion) -> None:
        """Read a new version's checkpoint, after its download or import; do nothing if that is done.

        Raises `CheckpointError` and `HubError`.
        """
        if version.model is not None:
            return
        path = await self._checkpoint(version)
        async with self._importing:
            model = await asyncio.to_thread(self._build, version.found, path)
            version.built(model, estimated_bytes(path, len(model.pool.engines)))

    async def load(self, version: ModelVersion) -> None:
        """Start the engines of a prepared version if they fit beside the loaded ones; otherwise a request will.

        Raises `ServiceError`, `CheckpointError` and `OSError`.
        """
        async with self._loading:
            if self._budget.fits(version, self._versions):
                await self._start_engines(version)
            else:
                version.evicted()

    async def load_again(self, version: ModelVersion) -> None:
        """Load a version that has a request and no engines; after a failure, the next request tries again."""
        assert version.model is not None
        # Repeat for requests that arrive while a failed load is being stopped.
        while version.has_requests and not version.model.pool.running:
            async with self._loading:
                try:
                    # Its requests may have timed out while they waited.
                    if version.has_requests and await self._budget.make_room(version, self._versions):
                        await self._start_engines(version)
                except (CheckpointError, ServiceError, OSError) as error:
                    await self._unload(version, str(error))
                except Exception:
                    logger.exception("loading of a model ended", extra={"model": version.name})
                    await self._unload(version, UNEXPECTED)

    async def shrink(self) -> None:
        """Unload idle models if the engines have grown over the budget, unless a model is being loaded."""
        if not self._loading.locked():
            async with self._loading:
                await self._budget.shrink(self._versions)

    async def _checkpoint(self, version: ModelVersion) -> Path:
        """Return the native checkpoint of a new version, after its download or import."""
        location = version.found.location
        if isinstance(location, Path):
            async with self._importing:
                return await import_in_background(location)
        version.fetching()
        try:
            return await pull_in_background(location, self._hub, version.show_download)
        finally:
            version.loading()

    async def _start_engines(self, version: ModelVersion) -> None:
        assert version.model is not None
        version.loading()
        await version.model.load()
        self._budget.measure(version)
        version.ready()

    async def _unload(self, version: ModelVersion, reason: str) -> None:
        assert version.model is not None
        version.evicted(reason)
        logger.error("model cannot be loaded", extra={"model": version.name, "reason": reason})
        await version.model.pool.stop(reason)
