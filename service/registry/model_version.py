"""One version of a model: a checkpoint in the directory, and its state in this server; or one that is not here yet."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from model.checkpoint_config import Direction
from service.hub.progress import Report
from service.registry.process_memory import resident_bytes
from service.registry.scan import FoundModel
from service.registry.served_model import ServedModel


class State(StrEnum):
    REMOTE = "remote"
    """Offered and not here: the first request fetches it."""
    DOWNLOADING = "downloading"
    LOADING = "loading"
    READY = "ready"
    UNLOADED = "unloaded"
    """Evicted from memory for lack of room; the next request loads it."""
    UNLOADING = "unloading"
    """Takes no new requests."""
    FAILED = "failed"


class FetchProgress(NamedTuple):
    """The progress of a fetch: the step, as `downloading`, and how much of the download is here."""

    step: str
    percent: int | None
    """None where it is not known."""


@dataclass(frozen=True, eq=False)
class RemoteModel:
    """A model that is not loaded; its directions are those of its name or its index."""

    name: str
    directions: Sequence[Direction]
    is_here: bool
    """True if it needs no download."""
    fetch: Callable[[], Awaitable[None]]
    """Downloads and loads it, or waits for another request that does. Raises `NotReady` with the reason."""
    progress: Callable[[], FetchProgress]


@dataclass(eq=False)
class ModelVersion:
    """One version of a model; a changed checkpoint of the same name is another version.

    Its attributes change by its own methods alone. A version that is `retired` never takes requests again.
    """

    found: FoundModel
    state: State = State.LOADING
    reason: str | None = None
    """The reason why it failed, or why the last load failed."""
    model: ServedModel | None = None
    """None until its files have been read."""
    offered: bool = False
    """True if requests are sent to it, loaded or not."""
    needed_bytes: int = 0
    """The memory of its loaded engines: an estimate until they are first loaded, then measured."""
    directions: Sequence[Direction] = ()
    """The directions of a model that is fetched at the first request for it, as its name or its index has them."""
    retry_at: float = 0.0
    """`time.monotonic` before which a model whose fetch has failed is not fetched again."""
    download: Report | None = None
    """The progress of its download, while there is one."""
    task: asyncio.Task[None] | None = None
    """The task that loads it."""
    is_retried: bool = False
    """True while it fails for a reason outside of its files, such as a full disk, and is loaded again later."""

    @property
    def name(self) -> str:
        return self.found.name

    def may_translate(self, language: str) -> bool:
        """Return False if its files have been read, and it does not know the language, in any spelling."""
        primary = language.lower().replace("_", "-").partition("-")[0]
        codes = {code for each in self.model.directions for code in each.codes()} if self.model else {primary}
        return primary in {code.partition("-")[0] for code in codes}

    @property
    def on_demand(self) -> bool:
        """True for a public model that is fetched at the first request for it."""
        return bool(self.directions)

    @property
    def is_available(self) -> bool:
        """True if requests for its directions are taken, although it may have to be fetched first."""
        return self.offered or self.is_remote

    @property
    def is_remote(self) -> bool:
        """True if the first request for it fetches it, or waits for the fetch that another one has begun."""
        return self.on_demand and not self.offered and self.state not in (State.FAILED, State.UNLOADING)

    @property
    def fetch_progress(self) -> FetchProgress:
        step = self.download.step if self.download else ""
        return FetchProgress(step or self.state, None if self.downloaded is None else round(100 * self.downloaded))

    @property
    def downloaded(self) -> float | None:
        """The share of its download that is here, from 0 to 1; None without a download, and where it is not known."""
        report = self.download
        return min(1.0, report.done / report.total) if report is not None and report.total else None

    @property
    def download_status(self) -> str:
        """Describe the download for people: `downloading argos:en-de: 40 %`."""
        step, percent = self.fetch_progress
        return f"{step} {self.name}" + ("" if percent is None else f": {percent} %")

    @property
    def is_being_loaded(self) -> bool:
        return self.task is not None and not self.task.done()

    def load_in(self, task: asyncio.Task[None]) -> None:
        """Note the task that loads it from now on."""
        self.task = task

    async def stop_loading(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    def fetching(self) -> None:
        """Its download begins."""
        self._enter(State.DOWNLOADING)

    def show_download(self, report: Report) -> None:
        self.download = report

    def loading(self) -> None:
        """Its files are read, or its engines start; a download is over."""
        self.download = None
        self._enter(State.LOADING)

    def built(self, model: ServedModel, needed_bytes: int) -> None:
        """Its files have been read."""
        self.model, self.needed_bytes = model, needed_bytes

    def measure(self) -> None:
        """Note the memory that its engines take now."""
        self.needed_bytes = self.memory_bytes

    def ready(self) -> None:
        """Its engines run."""
        self.reason = None
        self._enter(State.READY)

    def evicted(self, reason: str | None = None) -> None:
        """It has no engines, for lack of room or for the `reason` of a failed load: the next request loads it."""
        self.reason = reason
        self._enter(State.UNLOADED)

    def offer(self) -> None:
        """Have it take requests from now on."""
        self.offered = self.state is not State.UNLOADING
        self.reason, self.is_retried = None, False

    def failed(self, reason: str, *, is_retried: bool = False) -> None:
        """It takes no requests any more, or not before it is loaded again."""
        self.reason, self.offered, self.is_retried = reason, False, is_retried
        self._enter(State.FAILED)

    def postponed(self, reason: str, retry_at: float) -> None:
        """Its fetch has failed: a request after `retry_at` fetches it again."""
        self.reason, self.retry_at = reason, retry_at
        self._enter(State.UNLOADED if self.model else State.REMOTE)

    def removed(self) -> None:
        """Its files are gone from the disk: the next request fetches it."""
        self.model, self.offered = None, False
        self._enter(State.REMOTE)

    def retired(self) -> None:
        """It is being unloaded for ever."""
        self.offered = False
        self._enter(State.UNLOADING)

    def _enter(self, state: State) -> None:
        if self.state is not State.UNLOADING:
            self.state = state

    @property
    def has_requests(self) -> bool:
        """True if requests are running in its engines or waiting for them."""
        return self.model is not None and self.model.pool.load > 0

    @property
    def is_idle(self) -> bool:
        """True if its engines run without a request."""
        return self.model is not None and self.model.pool.running and not self.has_requests

    @property
    def used_at(self) -> float:
        """The time of its last request."""
        return self.model.pool.used_at if self.model else 0.0

    @property
    def memory_bytes(self) -> int:
        """The memory that its engines use now."""
        if self.model is None:
            return 0
        pool = self.model.pool
        return resident_bytes(pool.parent_pid, pool.pids, pool.zygote_pid)
