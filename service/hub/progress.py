"""The progress of pulling a model. Knows no terminal."""

from collections.abc import Callable
from typing import Literal

import msgspec

Step = Literal["waiting for another process", "downloading", "importing"]


class Progress:
    """The present step, and the bytes of the download; `on_change` is called after each change."""

    def __init__(self, on_change: Callable[["Progress"], None] = lambda progress: None) -> None:
        self.step: Step = "downloading"
        self.done = 0
        self.total: int | None = None
        """None before the index has been read, and if the index does not tell the size."""
        self._on_change = on_change

    def enter(self, step: Step) -> None:
        self.step = step
        self._on_change(self)

    def begin(self, total: int | None) -> None:
        """Start to count bytes, from 0."""
        self.done, self.total = 0, total
        self.enter("downloading")

    def expect(self, total: int) -> None:
        """Set the size of a download whose index does not tell it."""
        self.total = total
        self._on_change(self)

    def advance(self, count: int) -> None:
        """Count bytes; a negative number takes back bytes that have to be downloaded again."""
        self.done += count
        self._on_change(self)


class Report(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A line of `dragoman pull --json`: progress, or at the end the checkpoint or the error."""

    name: str
    step: str = ""
    done: int = 0
    total: int | None = None
    path: str | None = None
    error: str | None = None
    temporary: bool = False
    """True if another attempt may succeed."""
