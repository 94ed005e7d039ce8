"""Public models that are offered and fetched at the first request for them, and the limit of the disk they take."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from model.checkpoint_config import Direction
from service.errors import NotReady
from service.hub.errors import HubError
from service.hub.names import HubIndex, HubName
from service.hub.options import HubOptions
from service.hub.store import Store
from service.registry.model_version import ModelVersion, State
from service.registry.pulling import list_in_background
from service.registry.remote_model import RemoteModel
from service.registry.scan import FoundModel

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 10.0
"""Delay after a model or an index could not be fetched."""
_LONGEST_RETRY_SECONDS: Final = 600.0
_IDLE_SECONDS: Final = 5.0
"""Time after which a model without engines may be removed: the request that fetched it needs a moment to use it."""


@dataclass(frozen=True)
class PublicModels:
    """The options of a server's public models."""

    hub: HubOptions
    index: HubIndex | None = None
    """The index whose models are all offered, and fetched on demand."""
    cache_limit_bytes: int | None = None
    """The limit of the disk that all public models take."""


class OnDemandModels:
    """The models of one server that are fetched on demand. They are among its versions, which are shared."""

    def __init__(
        self,
        options: PublicModels,
        versions: list[ModelVersion],
        introduce: Callable[[ModelVersion], asyncio.Task[None]],
        update_routes: Callable[[], None],
    ) -> None:
        """`introduce` begins to download and load a version."""
        self._options = options
        self._versions = versions
        self._introduce = introduce
        self._update_routes = update_routes
        self._shrinking = asyncio.Lock()
        self.problem: str | None = None
        """The reason why the index cannot be read."""

    async def offer(self) -> None:
        """Offer the models of the index: those that are here, then all others, once the index can be read."""
        if self._options.index is None:
            return
        self._offer(await asyncio.to_thread(cached_models, self._options.index), State.UNLOADED)
        if self._options.hub.offline:
            return
        try:
            self._offer(await list_in_background(self._options.index, self._options.hub), State.REMOTE)
        except HubError as error:
            self.problem = str(error)
            logger.error("index cannot be read", extra={"index": str(self._options.index), "reason": str(error)})
        else:
            self.problem = None

    async def keep_offering(self) -> None:
        """Read the index again, at growing intervals, until that succeeds."""
        seconds = _RETRY_SECONDS
        while self.problem is not None:
            await asyncio.sleep(seconds)
            await self.offer()
            seconds = min(2 * seconds, _LONGEST_RETRY_SECONDS)

    def models(self) -> list[RemoteModel]:
        """Return the models that have to be fetched, as the routes need them."""
        return [
            RemoteModel(
                each.name,
                each.directions,
                each.state is not State.REMOTE,
                fetch=partial(self._fetch, each),
                progress=partial(getattr, each, "fetch_progress"),
            )
            for each in self._versions
            if each.is_remote
        ]

    async def postpone(self, version: ModelVersion, reason: str) -> None:
        """Let a later request fetch a model again whose fetch has failed."""
        version.set_state(State.UNLOADED if version.model else State.REMOTE)
        version.reason, version.retry_at = reason, time.monotonic() + _RETRY_SECONDS
        logger.error("model cannot be fetched", extra={"model": version.name, "reason": reason})
        if version.model is not None:
            await version.model.pool.stop(reason)

    async def shrink_cache(self) -> None:
        """Remove the least recently used public models from the disk; those with engines or requests stay."""
        if (limit := self._options.cache_limit_bytes) is None:
            return
        versions = {each.name: each for each in self._versions if isinstance(each.found.location, HubName)}
        async with self._shrinking:
            kept = {name for name, each in versions.items() if not _is_removable(each)}
            removed = await asyncio.to_thread(Store().shrink, limit, kept)
            self._forget([version for name in removed if (version := versions.get(name))])

    def _forget(self, versions: Sequence[ModelVersion]) -> None:
        """Offer models that are no longer on the disk as remote ones."""
        for version in versions:
            logger.info("model removed from the disk to make room", extra={"model": version.name})
            version.model, version.offered = None, False
            version.set_state(State.REMOTE)
        if versions:
            self._update_routes()

    async def _fetch(self, version: ModelVersion) -> None:
        """Download and load a model; raises `NotReady` with the reason."""
        if version.task is None or version.task.done():
            if version.retry_at > time.monotonic():
                raise NotReady(f"{version.name}: {version.reason}")
            async with self._shrinking:  # which must not remove what is loaded now
                if version.task is None or version.task.done():
                    version.set_state(State.LOADING)
                    version.task = self._introduce(version)
        await asyncio.wait([version.task])  # it goes on if this request is cancelled
        if not version.offered:
            raise NotReady(f"{version.name}: {version.reason}")

    def _offer(self, models: Mapping[HubName, Sequence[Direction]], state: State) -> None:
        known = {each.name for each in self._versions}
        for name, directions in models.items():
            if str(name) not in known:
                self._versions.append(ModelVersion(FoundModel(str(name), name, ""), state, directions=directions))
        self._update_routes()


def cached_models(index: HubIndex) -> Mapping[HubName, Sequence[Direction]]:
    """Return the models of an index that are on the disk, with their directions."""
    entries = [each for each in Store().entries() if each.origin.name.startswith(str(index))]
    return {
        HubName(index.source, each.origin.name.removeprefix(str(index))): each.config.all_directions()
        for each in entries
    }


def _is_removable(version: ModelVersion) -> bool:
    if not version.on_demand or version.state not in (State.REMOTE, State.UNLOADED):
        return False
    model = version.model
    return model is None or (not model.in_use and time.monotonic() > model.used_at + _IDLE_SECONDS)
