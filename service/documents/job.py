"""The state of one document on its way through the server. Knows neither files nor the translator."""

import asyncio
import secrets
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from service.documents.document import Document
from service.documents.report import Report
from service.errors import ServiceError
from service.translation.options import TranslationOptions

State = Literal["queued", "translating", "done", "error"]


@dataclass(eq=False, kw_only=True)
class DocumentJob:
    """A document in its own directory, and everything that its translation needs.

    `state` is final if it is `done` or `error`.
    """

    owner: str
    document: Document
    name: str
    source: str
    target: str
    characters: int
    options: TranslationOptions
    charge: AbstractAsyncContextManager[object]
    """A context that was entered; the job leaves it, with the error if there is one."""
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    key: str = field(default_factory=lambda: secrets.token_hex(16))
    state: State = "queued"
    error: ServiceError | None = None
    report: Report | None = None
    """What happened to the texts, once the state is `done`."""
    characters_done: int = 0
    started_at: float | None = None
    wanted_at: float = field(default_factory=time.monotonic)
    ended_at: float | None = None
    readers: int = 0
    """The number of clients that wait for the document or follow its progress; with a reader, it is wanted."""
    task: asyncio.Task[None] | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def result(self) -> Path:
        return self.document.path.with_name("result")

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "error")

    @property
    def seconds_left(self) -> int | None:
        """An estimate of the seconds until the translation ends; None before it has begun, and afterwards."""
        if self.started_at is None or not self.characters_done or self.is_over:
            return None
        pace = (time.monotonic() - self.started_at) / self.characters_done
        return round(pace * max(self.characters - self.characters_done, 0))

    def changed(self) -> None:
        """Wake all who wait for a change."""
        self._changed.set()
        self._changed = asyncio.Event()

    @contextmanager
    def wanted(self) -> Iterator[None]:
        """Count a client that waits for as long as the context lasts."""
        self.readers += 1
        try:
            yield
        finally:
            self.readers -= 1
            self.wanted_at = time.monotonic()

    async def wait_for_change(self) -> None:
        """Wait until the progress or the state changes; at once if it is over."""
        if not self.is_over:
            await self._changed.wait()
