"""The registry of served models: it loads the models of a directory, follows changes, and obeys the memory limit."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from model.checkpoint_config import CheckpointError
from service.errors import EngineFailed, ServiceError
from service.hub.errors import HubError, TemporaryHubError
from service.hub.names import HubOptions
from service.registry.importing import InterruptedImport
from service.registry.loading import UNEXPECTED, Build, ModelLoader
from service.registry.memory_budget import MemoryBudget
from service.registry.model_version import ModelVersion, State
from service.registry.public_models import OnDemandModels, PublicModels
from service.registry.routing import Routes
from service.registry.scan import DirectoryScans, FoundModel
from service.registry.served_model import ServedModel

logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 5.0
"""Interval between two scans of a directory of models; a change takes effect when two agree."""
_FIRST_RETRY_SECONDS: Final = 10.0
"""Delay after a new model has failed for a reason outside of its files; doubled after each failure."""
_LONGEST_RETRY_SECONDS: Final = 600.0
_DOWNLOAD_POLL_SECONDS: Final = 0.1

_NO_NETWORK: Final = PublicModels(HubOptions(offline=True))


class ModelRegistry:
    """The models of one server; `routes` are the routes of all offered models, and are replaced as a whole."""

    def __init__(
        self,
        versions: Iterable[ModelVersion],
        build: Build,
        budget: MemoryBudget,
        *,
        directory: Path | None = None,
        public: PublicModels = _NO_NETWORK,
        on_change: Callable[[Sequence[ServedModel]], None] = lambda models: None,
    ) -> None:
        """`directory` is followed, if models come from one; `on_change` gets the offered models after each change."""
        self.versions = list(versions)
        self.routes = Routes()
        self._loader = ModelLoader(build, budget, self.versions, public.hub)
        found = (each.found for each in self.versions)
        self._scans = None if directory is None else DirectoryScans(directory, found)
        self._on_change = on_change
        self._on_demand = OnDemandModels(
            public, self.versions, lambda each: self._spawn(self._introduce(each, 0.0)), self._update_routes
        )
        self._tried = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def started(self) -> bool:
        """True once all models found at the start have been tried, if at least one is offered."""
        return self._tried.is_set() and any(each.is_available for each in self.versions)

    @property
    def ready(self) -> bool:
        """True if `started` and one model can answer: its engines are not all dead and being replaced."""
        return self._tried.is_set() and any(each.is_available and _can_answer(each) for each in self.versions)

    @property
    def why_not_ready(self) -> str:
        """The reason why `ready` is False, for display."""
        pools = [each.model.pool for each in self.versions if each.offered and each.model]
        if refusal := next((pool.refusal for pool in pools if pool.refusal), None):
            return refusal
        if downloads := [each for each in self.versions if each.state is State.DOWNLOADING]:
            return "; ".join(each.download_status for each in downloads)
        if any(each.state in (State.LOADING, State.READY) for each in self.versions):
            return "the model is being loaded"
        return self._on_demand.problem or (
            "no model can be used: see /models" if self.versions else "there is no model"
        )

    @property
    def serving(self) -> bool:
        """True if requests are accepted: when `started`, or earlier if only public models are still on their way."""
        on_disk = (each for each in self.versions if isinstance(each.found.location, Path))
        return self.started or (
            any(each.offered for each in self.versions)
            and not any(each.state is State.LOADING and not each.offered for each in on_disk)
        )

    def why_not_now(self, language: str) -> str | None:
        """Return why a language may be missing for a while: a model that may have it is loaded again later."""
        retried = (each for each in self.versions if each.is_retried and each.may_translate(language))
        return next((f"{each.name} cannot be used now: {each.reason}" for each in retried), None)

    def start(self) -> None:
        """Start to load the models; returns at once."""
        first = []
        for version in self.versions:
            if not version.on_demand:
                task = self._spawn(self._introduce(version, _FIRST_RETRY_SECONDS))
                version.load_in(task)
                first.append(task)
        first.append(self._spawn(self._on_demand.offer()))
        self._update_routes()
        self._spawn(self._watch(first))

    async def wait_until_tried(self) -> None:
        """Wait until each model found at the start is ready or has failed; raises `EngineFailed` if all have failed."""
        await self._tried.wait()
        if not self.started:
            problems = [f"{each.name}: {each.reason}" for each in self.versions]
            raise EngineFailed(self._on_demand.problem or "; ".join(problems))

    async def wait_until_started(self, seconds: float) -> None:
        """Wait until `started`, or until that is known to be impossible, or until the time is up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._tried.wait()

    async def wait_until_downloaded(self) -> None:
        """Wait until no public model is being downloaded for the first time."""
        while not self._tried.is_set() and any(each.state is State.DOWNLOADING for each in self.versions):  # noqa: ASYNC110
            await asyncio.sleep(_DOWNLOAD_POLL_SECONDS)

    async def stop(self) -> None:
        """Stop all engines; requests in flight get an error."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(each.model.pool.stop() for each in self.versions if each.model))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _watch(self, first: Sequence[asyncio.Task[None]]) -> None:
        await asyncio.gather(*first, return_exceptions=True)
        self._tried.set()
        self._spawn(self._on_demand.keep_offering())
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self._maintain()
            except Exception:
                logger.exception("models cannot be maintained this time")

    async def _maintain(self) -> None:
        if self._scans is not None:
            await self._follow_directory(self._scans)
        await self._loader.shrink()
        await self._on_demand.shrink_cache()

    async def _follow_directory(self, scans: DirectoryScans) -> None:
        """Load models that two scans found unchanged; unload models that two scans missed."""
        try:
            changes = await asyncio.to_thread(scans.scan)
        except CheckpointError as error:
            logger.error("models directory cannot be read", extra={"reason": str(error)})
            return
        self._retire_all(version for version in self.versions if version.name not in changes.names)
        for found in changes.present:
            self._add_version(found)

    def _add_version(self, found: FoundModel) -> None:
        """Load this version of a model, and drop all others except the one that takes requests until this one does."""
        known = [
            version for version in self.versions if version.name == found.name and version.state is not State.UNLOADING
        ]
        self._retire_all(version for version in known if version.found != found and not version.offered)
        if not any(version.found == found for version in known):
            version = ModelVersion(found)
            self.versions.append(version)
            version.load_in(self._spawn(self._introduce(version, _FIRST_RETRY_SECONDS)))

    def _retire_all(self, versions: Iterable[ModelVersion]) -> None:
        for version in [each for each in versions if each.state is not State.UNLOADING]:
            version.retired()
            self._spawn(self._retire(version))

    async def _introduce(self, version: ModelVersion, retry_seconds: float) -> None:
        """Load a new version, send requests to it, and retire the previous version of its name."""
        try:
            await self._loader.prepare(version)
            await self._loader.load(version)
        except (ServiceError, OSError, TemporaryHubError, InterruptedImport) as error:
            if version.on_demand:
                await self._on_demand.postpone(version, str(error))
            else:
                await self._fail(version, str(error), is_retried=True)
                version.load_in(self._spawn(self._introduce_later(version, retry_seconds)))
            return
        except (CheckpointError, HubError) as error:
            await self._fail(version, str(error))
            return
        except Exception:
            logger.exception("loading of a model ended", extra={"model": version.name})
            await self._fail(version, UNEXPECTED)
            return
        previous = [
            each for each in self.versions if each.name == version.name and each.offered and each is not version
        ]
        version.offer()
        self._retire_all(previous)
        self._update_routes()
        logger.info("model %s", version.state, extra={"model": version.name})

    async def _introduce_later(self, version: ModelVersion, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._introduce(version, min(2 * seconds, _LONGEST_RETRY_SECONDS))

    def request_load(self, found: FoundModel) -> None:
        """Load the model of a checkpoint that has a request and no engines; return at once."""
        version = next(each for each in self.versions if each.found is found)
        if version.state is State.FAILED:
            self._spawn(self._fail(version, version.reason or ""))
        elif not version.is_being_loaded:
            version.load_in(self._spawn(self._loader.load_again(version)))

    async def _fail(self, version: ModelVersion, reason: str, *, is_retried: bool = False) -> None:
        version.failed(reason, is_retried=is_retried)
        logger.error("model cannot be used", extra={"model": version.name, "reason": reason})
        self._update_routes()
        if version.model is not None:
            await version.model.pool.stop(reason)

    async def _retire(self, version: ModelVersion) -> None:
        """Remove a version: at once for new requests, and at their end for running ones."""
        self._update_routes()
        logger.info("model unloading", extra={"model": version.name})
        if version.model is not None:
            await version.model.wait_until_unused()
        # The load would otherwise go on, even for a request that has ended.
        await version.stop_loading()
        if version.model is not None:
            await version.model.pool.stop()
        self.versions.remove(version)

    def _update_routes(self) -> None:
        offered = [each.model for each in self.versions if each.offered and each.model]
        known, self.routes = self.routes.unused, Routes(offered, self._on_demand.models())
        for model in {leg.model for leg in self.routes.unused} - {leg.model for leg in known}:
            count = sum(leg.model is model for leg in self.routes.unused)
            reason = f"{count} of its directions are translated by models whose names come first"
            logger.warning("model not used for all directions", extra={"model": model.name, "reason": reason})
        self._on_change(offered)


def _can_answer(version: ModelVersion) -> bool:
    """Return True if the model has an engine, or if it is loaded on demand."""
    return version.model is None or version.state is not State.READY or version.model.pool.loaded
