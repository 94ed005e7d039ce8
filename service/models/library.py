"""Loads models and offers those that are ready; takes them away again when the server ends."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from model.manifest import CheckpointError
from service.engine.request import GenerationRequest
from service.errors import EngineFailed, ServiceError
from service.importing import imported_meanwhile
from service.models.routing import Routes
from service.models.served import ServedModel

logger = logging.getLogger(__name__)

_PACKAGE: Final = ".argosmodel"
_PROBE_TEXT: Final = "Hello."
_PROBE_TOKENS: Final = 32
_PROBE_SECONDS: Final = 60.0

Build = Callable[[str, Path], ServedModel]
"""Makes what a checkpoint of ours is served by, engines not yet started; raises `CheckpointError`."""


class State(StrEnum):
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


@dataclass(eq=False)
class Entry:
    """A checkpoint and what has become of it."""

    name: str
    path: Path
    state: State = State.LOADING
    reason: str | None = None
    """Why it failed."""
    model: ServedModel | None = None
    """None until its files have been read."""

    def described(self) -> list[str]:
        """What it translates, for people."""
        return [str(direction) for direction in self.model.directions] if self.model else []


class Library:
    """The models of one server; `routes` are those of the ready ones, and change as a whole."""

    def __init__(self, entries: Sequence[Entry], build: Build) -> None:
        self.entries = list(entries)
        self.routes = Routes()
        self._build = build
        self._loading: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether all models have been tried, and at least one can answer now."""
        return self._tried.is_set() and any(each.model and each.model.pool.loaded for each in self._ready())

    @property
    def started(self) -> bool:
        """As `ready`, but for engines that have died since and are being replaced."""
        return self._tried.is_set() and bool(self._ready())

    def start(self) -> None:
        """Begin to load; returns at once."""
        self._loading = asyncio.create_task(self._load_all())

    async def wait_until_tried(self) -> None:
        """Until all models are ready or have failed; raises `EngineFailed` with the reasons if all have."""
        await self._tried.wait()
        if not self._ready():
            raise EngineFailed("; ".join(f"{each.name}: {each.reason}" for each in self.entries))

    async def stop(self) -> None:
        """End all engines; requests still in flight get an error."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        await asyncio.gather(*(each.model.pool.stop() for each in self.entries if each.model))

    async def _load_all(self) -> None:
        # One after the other: loading takes more memory than a loaded model.
        for entry in self.entries:
            await self._load(entry)
        self._tried.set()

    async def _load(self, entry: Entry) -> None:
        try:
            if entry.model is None:
                path = await imported_meanwhile(entry.path)
                entry.model = await asyncio.to_thread(self._build, entry.name, path)
            entry.model.pool.start()
            await entry.model.pool.wait_until_started()
            await _probe(entry.model)
        except (CheckpointError, ServiceError, OSError) as error:
            if entry.model is not None:
                await entry.model.pool.stop()
            entry.state, entry.reason = State.FAILED, str(error)
            logger.error("model cannot be used", extra={"model": entry.name, "reason": entry.reason})
            return
        entry.state = State.READY
        self.routes = Routes(each.model for each in self._ready() if each.model)
        logger.info("model ready", extra={"model": entry.name})

    def _ready(self) -> list[Entry]:
        return [each for each in self.entries if each.state is State.READY]


def entries_of(directory: Path) -> list[Entry]:
    """The checkpoints of a directory, by name: all of its directories and Argos packages that are not hidden.

    Raises `CheckpointError` where there are none.
    """
    try:
        paths = sorted(directory.iterdir())
    except OSError as error:
        raise CheckpointError(f"{directory}: {error.strerror}") from None
    found = [path for path in paths if path.name[0] != "." and (path.is_dir() or path.suffix == _PACKAGE)]
    if not found:
        raise CheckpointError(f"{directory}: there is no checkpoint in it")
    return [Entry(path.name, path) for path in found]


async def _probe(model: ServedModel) -> None:
    """A model is ready when it has translated something: an engine's first step may take longer than others."""
    direction = model.directions[0]
    source, target = direction.codes()
    ids = model.tokenizer.encode(_PROBE_TEXT, target, source)
    prompt = model.tokenizer.target_prefix(target, source)
    length = min(_PROBE_TOKENS, model.max_new_tokens)
    generation = model.pool.submit(GenerationRequest(ids, length, prompt_ids=list(prompt)))
    deadline = asyncio.get_running_loop().time() + _PROBE_SECONDS
    try:
        while await generation.next_tokens(deadline):
            pass
    finally:
        generation.close()
