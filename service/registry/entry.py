"""A checkpoint that is or was in the directory, and what has become of it."""

import asyncio
from dataclasses import dataclass
from enum import StrEnum

from service.registry.process_memory import resident_bytes
from service.registry.scan import Found
from service.registry.served_model import ServedModel


class State(StrEnum):
    LOADING = "loading"
    READY = "ready"
    UNLOADED = "unloaded"
    """There was no room for it, or others needed its room: the next request loads it."""
    UNLOADING = "unloading"
    """It takes no new requests."""
    FAILED = "failed"


@dataclass(eq=False)
class Entry:
    """One version of a model; another one of its name is an entry of its own."""

    found: Found
    state: State = State.LOADING
    reason: str | None = None
    """Why it failed, or could not be loaded the last time."""
    model: ServedModel | None = None
    """None until its files have been read."""
    offered: bool = False
    """Whether requests are sent to it, loaded or not."""
    needed_bytes: int = 0
    """What its engines take when they are loaded: measured then, until then estimated."""
    task: asyncio.Task[None] | None = None
    """What is being done with it."""

    @property
    def name(self) -> str:
        return self.found.name

    @property
    def is_wanted(self) -> bool:
        """Whether requests are with its engines, or wait for them."""
        return self.model is not None and self.model.pool.load > 0

    @property
    def is_idle(self) -> bool:
        """Whether its engines run for nobody."""
        return self.model is not None and self.model.pool.running and not self.is_wanted

    @property
    def memory_bytes(self) -> int:
        """What its engines take now."""
        return resident_bytes(self.model.pool.parent_pid, self.model.pool.pids) if self.model else 0
