"""The protocol of every sequence, and the result of its steps."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from model.beam_search import Choice, Extension, Path
from service.engine.messages import FinishReason, LiveHypothesis
from service.engine.sequences.rows import Row


class SearchDiffers(Exception):
    """A repeated search differs from the tokens already sent: a near tie, in a mode that has them."""


class StepResult(NamedTuple):
    """The tokens that a step has settled, and the reason if the translation has ended."""

    choices: Sequence[Choice]
    finish_reason: FinishReason | None = None
    alternatives: Sequence[Path] = ()
    live: Sequence[LiveHypothesis] = ()
    """The live hypotheses of a beam, if they were requested."""


class PlainState(NamedTuple):
    """The state of a hypothesis that goes on with one token after the other, with nothing else to decide."""

    token: int | None
    """The last token; None at the start."""
    position: int
    """The number of tokens before the next one, the prompt included."""
    room: int
    """The number of tokens that it may still have."""


class TargetSequence(Protocol):
    """One request's hypotheses."""

    def copies(self) -> list[tuple[int, int, int]]:
        """Target K/V to copy before the next step: (from slot, to slot, positions)."""
        ...

    def rows(self) -> list[Row]:
        """Return the rows of the next step."""
        ...

    def advance(self, extensions: list[Extension]) -> StepResult:
        """Continue with the rows' extensions: those of the first row, then of the second, ...

        Raises `SearchDiffers`.
        """
        ...

    def plain_state(self) -> PlainState | None:
        """Return the state from which a `PlainTable` continues; None while the sequence itself is needed."""
        ...
