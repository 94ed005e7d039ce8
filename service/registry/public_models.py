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
from service.hub.names import HubIndex, HubName, HubOptions
from service.hub.store import Store
from service.registry.model_version import ModelVersion, RemoteModel, State
from service.registry.pulling import list_in_background
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
        self._is_read = False
        self.problem: str | None = None
        """The reason why the index cannot be read."""

    async def offer(self) -> None:
        """Offer the models of the index that are here; if there is none, those that can be downloaded."""
        if self._options.index is None:
            return
        cached = await asyncio.to_thread(cached_models, self._options.index)
        self._offer(cached, State.UNLOADED)
        if not cached and not self._options.hub.offline:
            await self._read_index(self._options.index)

    async def keep_offering(self) -> None:
        """Read the index unless that is done, again at growing intervals until it succeeds."""
        if self._options.index is None or self._options.hub.offline:
            return
        seconds = _RETRY_SECONDS
        while not self._is_read:
            if self.problem is not None:
                await asyncio.sleep(seconds)
                seconds = min(2 * seconds, _LONGEST_RETRY_SECONDS)
            await self._read_index(self._options.index)

    async def _read_index(self, index: HubIndex) -> None:
        """Offer all models of the index, or record why it cannot be read."""
        try:
            self._offer(await list_in_background(index), State.REMOTE)
        except (HubError, OSError) as error:
            self.problem = str(error)
            logger.error("index cannot be read", extra={"index": str(index), "reason": self.problem})
        except Exception:
            self.problem = f"{index}: unexpected error, see the log"
            logger.exception("index cannot be read", extra={"index": str(index)})
        else:
            self.problem, self._is_read = None, True

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
        version.postponed(reason, time.monotonic() + _RETRY_SECONDS)
        logger.error("model cannot be fetched", extra={"model": version.name, "reason": reason})
        if version.model is not None:
            await version.model.pool.stop(reason)

    async def shrink_cache(self) -> None:
        """Remove the least recently used models that are offered on demand from the disk, until the others fit.

        Models with engines or requests stay.
        """
        if (limit := self._options.cache_limit_bytes) is None:
            return
        store = Store()
        async with self._shrinking:
            removable = sorted(filter(_is_removable, self._versions), key=lambda each: each.used_at)
            sizes = await asyncio.to_thread(store.sizes, [_name(each) for each in removable])
            over = sizes.total - limit
            victims = []
            # Looked at again: a request may have come during the measurement.
            for version, size in zip(removable, sizes.of_names, strict=True):
                if over > 0 and size and _is_removable(version):
                    over -= size
                    victims.append(version)
                    version.removed()
            if victims:
                self._update_routes()  # from now on a request has to fetch them, which waits for the removal
                await asyncio.to_thread(_remove, store, [_name(each) for each in victims])

    async def _fetch(self, version: ModelVersion) -> None:
        """Download and load a model, unless that is done; raises `NotReady` with the reason."""
        async with self._shrinking:  # which must not remove what is loaded now
            if not version.offered and not version.is_being_loaded:
                if version.retry_at > time.monotonic():
                    raise NotReady(f"{version.name}: {version.reason}")
                version.loading()
                version.load_in(self._introduce(version))
        if version.task is not None:
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
    """Return the models of an index that are on the disk, with the directions of their newest revision."""
    found: dict[HubName, Sequence[Direction]] = {}
    for entry in Store().entries():
        if entry.origin.name.startswith(str(index)):
            name = HubName(index.source, entry.origin.name.removeprefix(str(index)))
            found.setdefault(name, entry.config.all_directions())
    return found


def _name(version: ModelVersion) -> HubName:
    assert isinstance(version.found.location, HubName)
    return version.found.location


def _is_removable(version: ModelVersion) -> bool:
    if not version.on_demand or version.state not in (State.REMOTE, State.UNLOADED):
        return False
    model = version.model
    return model is None or (not model.in_use and time.monotonic() > version.used_at + _IDLE_SECONDS)


def _remove(store: Store, names: Sequence[HubName]) -> None:
    for name in names:
        if store.remove_matching(name):
            logger.info("model removed from the disk to make room", extra={"model": str(name)})
