"""What every sequence does, and what it gives."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from model.beam_search import Choice, Extension, Path
from service.engine.messages import FinishReason, LiveHypothesis
from service.engine.sequences.rows import Row


class SearchDiffers(Exception):
    """A search that was begun again does not begin with what was told of it: a near tie, in a mode that has them."""


class StepResult(NamedTuple):
    """What a step has added to a translation for good, and whether that was the end of it."""

    choices: Sequence[Choice]
    finish_reason: FinishReason | None = None
    alternatives: Sequence[Path] = ()
    live: Sequence[LiveHypothesis] = ()
    """What a beam goes on with, where that is wanted."""


class TargetSequence(Protocol):
    """One request's hypotheses."""

    def copies(self) -> list[tuple[int, int, int]]:
        """Target K/V to copy before the next step: (from slot, to slot, positions)."""
        ...

    def rows(self) -> list[Row]:
        """The rows of the next step."""
        ...

    def advance(self, extensions: list[Extension]) -> StepResult:
        """Go on with what the rows have given: those of the first row, then of the second, ...

        Raises `SearchDiffers`.
        """
        ...
