"""Which models are served: loads what is in the directory, follows its changes, and keeps within the memory limit."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from model.checkpoint_config import CheckpointError
from service.errors import EngineFailed, ServiceError
from service.registry.entry import Entry, State
from service.registry.importing import imported_meanwhile
from service.registry.memory_budget import Room
from service.registry.process_memory import estimated_bytes
from service.registry.routing import Routes
from service.registry.scan import Found, look
from service.registry.served_model import ServedModel

logger = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS: Final = 10.0
"""After a new model has failed, and not for what is in its files; doubled each time."""
_LONGEST_RETRY_SECONDS: Final = 600.0
_UNEXPECTED: Final = "unexpected error, see the log"

Build = Callable[[Found, Path], ServedModel]
"""Makes what a checkpoint of ours is served by, engines not yet started; raises `CheckpointError`."""


class Library:
    """The models of one server; `routes` are those of all that are offered, and change as a whole.

    One model is imported, and one is loaded, at a time: both take more memory than a loaded model.
    """

    def __init__(
        self,
        entries: Iterable[Entry],
        build: Build,
        room: Room,
        *,
        directory: Path | None = None,
        poll_seconds: float = 5.0,
        on_change: Callable[[Sequence[ServedModel]], None] = lambda models: None,
    ) -> None:
        """`directory` is looked at every `poll_seconds`; `on_change` gets all that are offered, when it changes."""
        self.entries = list(entries)
        self.routes = Routes()
        self._build = build
        self._room = room
        self._directory = directory
        self._poll_seconds = poll_seconds
        self._on_change = on_change
        self._seen: Mapping[str, Found] = {each.name: each.found for each in self.entries}
        self._importing = asyncio.Lock()
        self._loading = asyncio.Lock()
        self._tried = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def started(self) -> bool:
        """Whether all models found at the start have been tried, and there is at least one."""
        return self._tried.is_set() and any(each.offered for each in self.entries)

    @property
    def ready(self) -> bool:
        """As `started`, but for models whose engines have all died and are being replaced."""
        return self._tried.is_set() and any(each.offered and self._answers(each) for each in self.entries)

    @property
    def why_not_ready(self) -> str:
        """Where it is not, for people."""
        if any(each.state in (State.LOADING, State.READY) for each in self.entries):
            return "the model is being loaded"
        return "no model can be used: see /models" if self.entries else "there is no model"

    def start(self) -> None:
        """Begin to load; returns at once."""
        for entry in self.entries:
            entry.task = self._do(self._introduce(entry, _FIRST_RETRY_SECONDS))
        self._do(self._watch([entry.task for entry in self.entries if entry.task]))

    async def wait_until_tried(self) -> None:
        """Until all models found at the start are ready or have failed; raises `EngineFailed` if all have."""
        await self._tried.wait()
        if not self.started:
            raise EngineFailed("; ".join(f"{each.name}: {each.reason}" for each in self.entries))

    async def stop(self) -> None:
        """End all engines; requests still in flight get an error."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(each.model.pool.stop() for each in self.entries if each.model))

    def _do(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _watch(self, first: Sequence[asyncio.Task[None]]) -> None:
        await asyncio.gather(*first, return_exceptions=True)
        self._tried.set()
        while True:
            await asyncio.sleep(self._poll_seconds)
            try:
                await self._look_after()
            except Exception:
                logger.exception("models cannot be looked after this time")

    async def _look_after(self) -> None:
        if self._directory is not None:
            await self._follow(self._directory)
        if not self._loading.locked():
            async with self._loading:
                await self._room.tidy(self.entries)

    async def _follow(self, directory: Path) -> None:
        """What has been there at two looks, and as it was, is loaded; what is gone at two is unloaded."""
        try:
            found = await asyncio.to_thread(look, directory)
        except CheckpointError as error:
            logger.error("models directory cannot be read", extra={"reason": str(error)})
            return
        seen, self._seen = self._seen, found
        # One look may fail at a file, on a disk that is far away.
        self._forget(entry for entry in self.entries if entry.name not in found and entry.name not in seen)
        for name, each in found.items():
            # What is still being copied changes from look to look.
            if seen.get(name) == each:
                self._renew(each)

    def _renew(self, found: Found) -> None:
        """Have this version of a model, and no other one but that which takes requests until this one does."""
        known = [entry for entry in self.entries if entry.name == found.name and entry.state is not State.UNLOADING]
        self._forget(entry for entry in known if entry.found != found and not entry.offered)
        if not any(entry.found == found for entry in known):
            entry = Entry(found)
            self.entries.append(entry)
            entry.task = self._do(self._introduce(entry, _FIRST_RETRY_SECONDS))

    def _forget(self, entries: Iterable[Entry]) -> None:
        for entry in list(entries):
            if entry.state is not State.UNLOADING:
                entry.state = State.UNLOADING
                self._do(self._retire(entry))

    async def _introduce(self, entry: Entry, retry_seconds: float) -> None:
        """Load a new model, then send requests to it, and no more to the one of its name before."""
        try:
            if entry.model is None:
                async with self._importing:
                    path = await imported_meanwhile(entry.found.path)
                    entry.model = await asyncio.to_thread(self._build, entry.found, path)
                    entry.needed_bytes = estimated_bytes(path, len(entry.model.pool.engines))
            entry.model.on_demand = lambda: self._bring_back(entry)
            async with self._loading:
                if self._room.has(entry, self.entries):
                    await self._load(entry, entry.model)
                else:
                    entry.state = State.UNLOADED
        except CheckpointError as error:
            await self._fail(entry, str(error))
            return
        except (ServiceError, OSError) as error:
            await self._fail(entry, str(error))
            entry.task = self._do(self._introduce_later(entry, retry_seconds))
            return
        except Exception:
            logger.exception("loading of a model ended", extra={"model": entry.name})
            await self._fail(entry, _UNEXPECTED)
            return
        entry.reason = None
        before = [each for each in self.entries if each.name == entry.name and each.offered]
        entry.offered = True
        for each in before:
            each.offered = False
        self._changed()
        logger.info("model %s", entry.state, extra={"model": entry.name})
        self._forget(before)

    async def _introduce_later(self, entry: Entry, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._introduce(entry, min(2 * seconds, _LONGEST_RETRY_SECONDS))

    def _bring_back(self, entry: Entry) -> None:
        """A request is there, and engines are not."""
        if entry.state is State.FAILED:
            self._do(self._fail(entry, entry.reason or ""))
        elif entry.task is None or entry.task.done():
            entry.task = self._do(self._load_on_demand(entry))

    async def _load_on_demand(self, entry: Entry) -> None:
        assert entry.model is not None
        # Again for those that come while what could not be loaded is stopped.
        while entry.is_wanted and not entry.model.pool.running:
            async with self._loading:
                try:
                    # Its requests may have run out of time while they waited.
                    if entry.is_wanted and await self._room.make(entry, self.entries):
                        await self._load(entry, entry.model)
                except (CheckpointError, ServiceError, OSError) as error:
                    await self._put_off(entry, entry.model, str(error))
                except Exception:
                    logger.exception("loading of a model ended", extra={"model": entry.name})
                    await self._put_off(entry, entry.model, _UNEXPECTED)

    async def _load(self, entry: Entry, model: ServedModel) -> None:
        _advance(entry, State.LOADING)
        await model.load()
        self._room.measure(entry)
        entry.reason = None
        _advance(entry, State.READY)

    async def _put_off(self, entry: Entry, model: ServedModel, reason: str) -> None:
        """It has been loaded before: what is wrong now may be over when the next request comes."""
        _advance(entry, State.UNLOADED)
        entry.reason = reason
        logger.error("model cannot be loaded", extra={"model": entry.name, "reason": reason})
        await model.pool.stop(reason)

    async def _fail(self, entry: Entry, reason: str) -> None:
        _advance(entry, State.FAILED)
        entry.reason, entry.offered = reason, False
        logger.error("model cannot be used", extra={"model": entry.name, "reason": reason})
        self._changed()
        if entry.model is not None:
            await entry.model.pool.stop(reason)

    async def _retire(self, entry: Entry) -> None:
        """Take a model away: at once from new requests, from running ones at their end."""
        entry.offered = False
        self._changed()
        logger.info("model unloading", extra={"model": entry.name})
        if entry.model is not None:
            await entry.model.wait_until_unused()
        # Or it would go on, also for a request that is gone.
        if entry.task is not None:
            entry.task.cancel()
            await asyncio.gather(entry.task, return_exceptions=True)
        if entry.model is not None:
            await entry.model.pool.stop()
        self.entries.remove(entry)

    def _changed(self) -> None:
        offered = [each.model for each in self.entries if each.offered and each.model]
        self.routes = Routes(offered)
        self._on_change(offered)

    @staticmethod
    def _answers(entry: Entry) -> bool:
        """Also one that has to be loaded first does."""
        assert entry.model is not None
        return entry.state is not State.READY or entry.model.pool.loaded


def _advance(entry: Entry, state: State) -> None:
    """What is being unloaded stays so, whatever becomes of it meanwhile."""
    if entry.state is not State.UNLOADING:
        entry.state = state
