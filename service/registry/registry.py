"""The registry of served models: it loads the models of a directory, follows changes, and obeys the memory limit."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from model.checkpoint_config import CheckpointError
from service.errors import EngineFailed, ServiceError
from service.hub.errors import HubError, TemporaryHubError
from service.hub.options import HubOptions
from service.registry.importing import DEFAULT_LIMITS, ImportLimits, import_in_background
from service.registry.memory_budget import MemoryBudget
from service.registry.model_version import ModelVersion, State
from service.registry.process_memory import estimated_bytes
from service.registry.pulling import pull_in_background
from service.registry.routing import Routes
from service.registry.scan import FoundModel, scan
from service.registry.served_model import ServedModel

logger = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS: Final = 10.0
"""Delay after a new model has failed for a reason outside of its files; doubled after each failure."""
_LONGEST_RETRY_SECONDS: Final = 600.0
_DOWNLOAD_POLL_SECONDS: Final = 0.1
_UNEXPECTED: Final = "unexpected error, see the log"

_NO_HUB: Final = HubOptions(offline=True)

Build = Callable[[FoundModel, Path], ServedModel]
"""Builds the served model of a native checkpoint, without starting engines; raises `CheckpointError`."""


class ModelsDirectory(NamedTuple):
    """A directory of models, the time between two scans of it, and the limits of importing one of them."""

    path: Path | None = None
    """None if the server serves a single model."""
    poll_seconds: float = 5.0
    import_limits: ImportLimits = DEFAULT_LIMITS


_NO_DIRECTORY: Final = ModelsDirectory()


class ModelRegistry:
    """The models of one server; `routes` are the routes of all offered models, and are replaced as a whole.

    One model is imported and one is loaded at a time: both need more memory than a loaded model.
    """

    def __init__(
        self,
        versions: Iterable[ModelVersion],
        build: Build,
        budget: MemoryBudget,
        *,
        directory: ModelsDirectory = _NO_DIRECTORY,
        hub: HubOptions = _NO_HUB,
        on_change: Callable[[Sequence[ServedModel]], None] = lambda models: None,
    ) -> None:
        """`on_change` gets the offered models after each change; `hub` has the options for public models."""
        self.versions = list(versions)
        self.routes = Routes()
        self._build = build
        self._budget = budget
        self._directory = directory
        self._hub = hub
        self._on_change = on_change
        self._seen: Mapping[str, FoundModel] = {each.name: each.found for each in self.versions}
        self._importing = asyncio.Lock()
        self._loading = asyncio.Lock()
        self._tried = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def started(self) -> bool:
        """True once all models found at the start have been tried, if at least one is offered."""
        return self._tried.is_set() and any(each.offered for each in self.versions)

    @property
    def ready(self) -> bool:
        """True if `started` and one model can answer: its engines are not all dead and being replaced."""
        return self._tried.is_set() and any(each.offered and self._can_answer(each) for each in self.versions)

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
        return "no model can be used: see /models" if self.versions else "there is no model"

    @property
    def serving(self) -> bool:
        """True if requests are accepted: when `started`, or earlier if only public models are still on their way."""
        on_disk = (each for each in self.versions if isinstance(each.found.location, Path))
        return self.started or (
            any(each.offered for each in self.versions)
            and not any(each.state is State.LOADING and not each.offered for each in on_disk)
        )

    def start(self) -> None:
        """Start to load the models; returns at once."""
        for version in self.versions:
            version.task = self._spawn(self._introduce(version, _FIRST_RETRY_SECONDS))
        self._spawn(self._watch([version.task for version in self.versions if version.task]))

    async def wait_until_tried(self) -> None:
        """Wait until each model found at the start is ready or has failed; raises `EngineFailed` if all have failed."""
        await self._tried.wait()
        if not self.started:
            raise EngineFailed("; ".join(f"{each.name}: {each.reason}" for each in self.versions))

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
        while True:
            await asyncio.sleep(self._directory.poll_seconds)
            try:
                await self._maintain()
            except Exception:
                logger.exception("models cannot be maintained this time")

    async def _maintain(self) -> None:
        if self._directory.path is not None:
            await self._follow_directory(self._directory.path)
        if not self._loading.locked():
            async with self._loading:
                await self._budget.shrink(self.versions)

    async def _follow_directory(self, directory: Path) -> None:
        """Load models that two scans found unchanged; unload models that two scans missed."""
        try:
            found = await asyncio.to_thread(scan, directory)
        except CheckpointError as error:
            logger.error("models directory cannot be read", extra={"reason": str(error)})
            return
        seen, self._seen = self._seen, found
        # One scan may miss a file, on a network disk.
        self._retire_all(version for version in self.versions if version.name not in found and version.name not in seen)
        for name, each in found.items():
            # A model that is still being copied changes between scans.
            if seen.get(name) == each:
                self._add_version(each)

    def _add_version(self, found: FoundModel) -> None:
        """Load this version of a model, and drop all others except the one that takes requests until this one does."""
        known = [
            version for version in self.versions if version.name == found.name and version.state is not State.UNLOADING
        ]
        self._retire_all(version for version in known if version.found != found and not version.offered)
        if not any(version.found == found for version in known):
            version = ModelVersion(found)
            self.versions.append(version)
            version.task = self._spawn(self._introduce(version, _FIRST_RETRY_SECONDS))

    def _retire_all(self, versions: Iterable[ModelVersion]) -> None:
        for version in list(versions):
            if version.state is not State.UNLOADING:
                version.state = State.UNLOADING
                self._spawn(self._retire(version))

    async def _introduce(self, version: ModelVersion, retry_seconds: float) -> None:
        """Load a new version, send requests to it, and retire the previous version of its name."""
        try:
            if version.model is None:
                path = await self._checkpoint(version)
                async with self._importing:
                    version.model = await asyncio.to_thread(self._build, version.found, path)
                    version.needed_bytes = estimated_bytes(path, len(version.model.pool.engines))
            version.model.request_load = lambda: self._request_load(version)
            async with self._loading:
                if self._budget.fits(version, self.versions):
                    await self._load(version, version.model)
                else:
                    version.state = State.UNLOADED
        except (ServiceError, OSError, TemporaryHubError) as error:
            await self._fail(version, str(error))
            version.task = self._spawn(self._introduce_later(version, retry_seconds))
            return
        except (CheckpointError, HubError) as error:
            await self._fail(version, str(error))
            return
        except Exception:
            logger.exception("loading of a model ended", extra={"model": version.name})
            await self._fail(version, _UNEXPECTED)
            return
        version.reason = None
        previous = [each for each in self.versions if each.name == version.name and each.offered]
        version.offered = True
        for each in previous:
            each.offered = False
        self._update_routes()
        logger.info("model %s", version.state, extra={"model": version.name})
        self._retire_all(previous)

    async def _checkpoint(self, version: ModelVersion) -> Path:
        """Return the native checkpoint of a new version, after its download or import."""
        location = version.found.location
        if isinstance(location, Path):
            async with self._importing:
                return await import_in_background(location, self._directory.import_limits)
        _set_state(version, State.DOWNLOADING)
        try:
            return await pull_in_background(location, self._hub, version.show_download)
        finally:
            version.download = None
            _set_state(version, State.LOADING)

    async def _introduce_later(self, version: ModelVersion, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._introduce(version, min(2 * seconds, _LONGEST_RETRY_SECONDS))

    def _request_load(self, version: ModelVersion) -> None:
        """Load a model that has a request and no engines."""
        if version.state is State.FAILED:
            self._spawn(self._fail(version, version.reason or ""))
        elif version.task is None or version.task.done():
            version.task = self._spawn(self._load_on_demand(version))

    async def _load_on_demand(self, version: ModelVersion) -> None:
        assert version.model is not None
        # Repeat for requests that arrive while a failed load is being stopped.
        while version.has_requests and not version.model.pool.running:
            async with self._loading:
                try:
                    # Its requests may have timed out while they waited.
                    if version.has_requests and await self._budget.make_room(version, self.versions):
                        await self._load(version, version.model)
                except (CheckpointError, ServiceError, OSError) as error:
                    await self._defer(version, version.model, str(error))
                except Exception:
                    logger.exception("loading of a model ended", extra={"model": version.name})
                    await self._defer(version, version.model, _UNEXPECTED)

    async def _load(self, version: ModelVersion, model: ServedModel) -> None:
        _set_state(version, State.LOADING)
        await model.load()
        self._budget.measure(version)
        version.reason = None
        _set_state(version, State.READY)

    async def _defer(self, version: ModelVersion, model: ServedModel, reason: str) -> None:
        """Unload a model that has been loaded before: the next request may find the problem gone."""
        _set_state(version, State.UNLOADED)
        version.reason = reason
        logger.error("model cannot be loaded", extra={"model": version.name, "reason": reason})
        await model.pool.stop(reason)

    async def _fail(self, version: ModelVersion, reason: str) -> None:
        _set_state(version, State.FAILED)
        version.reason, version.offered = reason, False
        logger.error("model cannot be used", extra={"model": version.name, "reason": reason})
        self._update_routes()
        if version.model is not None:
            await version.model.pool.stop(reason)

    async def _retire(self, version: ModelVersion) -> None:
        """Remove a version: at once for new requests, and at their end for running ones."""
        version.offered = False
        self._update_routes()
        logger.info("model unloading", extra={"model": version.name})
        if version.model is not None:
            await version.model.wait_until_unused()
        # The load would otherwise go on, even for a request that has ended.
        if version.task is not None:
            version.task.cancel()
            await asyncio.gather(version.task, return_exceptions=True)
        if version.model is not None:
            await version.model.pool.stop()
        self.versions.remove(version)

    def _update_routes(self) -> None:
        offered = [each.model for each in self.versions if each.offered and each.model]
        known, self.routes = self.routes.unused, Routes(offered)
        for model in {leg.model for leg in self.routes.unused} - {leg.model for leg in known}:
            count = sum(leg.model is model for leg in self.routes.unused)
            reason = f"{count} of its directions are translated by models whose names come first"
            logger.warning("model not used for all directions", extra={"model": model.name, "reason": reason})
        self._on_change(offered)

    @staticmethod
    def _can_answer(version: ModelVersion) -> bool:
        """Return True if the model has an engine, or if it is loaded on demand."""
        assert version.model is not None
        return version.state is not State.READY or version.model.pool.loaded


def _set_state(version: ModelVersion, state: State) -> None:
    """Set the state, unless the version is being unloaded."""
    if version.state is not State.UNLOADING:
        version.state = state
