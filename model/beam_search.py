"""Rules of beam search for one source, without tensors; offline decoding and the engine share them."""

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple


class Inspection(NamedTuple):
    """The way one token came about; fields that were not requested are empty or None."""

    candidates: Sequence[tuple[int, float]] = ()
    """The most probable (token, log-probability) at its place, the best first."""
    alignment: tuple[int, float] | None = None
    """The position of the source with the largest cross-attention weight, eos excluded, and that weight."""
    attention: Sequence[float] = ()
    """The cross-attention weights at all positions of the source, eos included."""
    self_attention: Sequence[Sequence[float]] | None = None
    """Weights over bos, the prompt and the tokens before this one, for each decoder layer; empty where the decoder has
    no self-attention."""


NOT_INSPECTED: Final = Inspection()


class Choice(NamedTuple):
    """One token of a hypothesis, and how probable it was there."""

    token: int
    logprob: float
    term: int | None = None
    """The number of the given term that the token belongs to; such a token was not chosen."""
    inspection: Inspection = NOT_INSPECTED


class Extension(NamedTuple):
    """A hypothesis, by its rank among the live ones, with one more token."""

    parent: int
    choice: Choice
    total: float
    """The sum of log-probabilities up to and with it."""


class Path(NamedTuple):
    """A hypothesis: its choices, without bos, and the sum of their log-probabilities."""

    choices: list[Choice]
    total: float
    ids: list[int]
    """The token ids of `choices`."""

    @classmethod
    def of(cls, choices: list[Choice], total: float) -> "Path":
        return cls(choices, total, [choice.token for choice in choices])

    def extended(self, extension: Extension) -> "Path":
        choice = extension.choice
        return Path([*self.choices, choice], extension.total, [*self.ids, choice.token])


EMPTY: Final = Path([], 0.0, [])


class BeamSearch:
    """One source's search by the rules of `model.decoding.beam_decode`; `live` is empty when it is done."""

    def __init__(self, beam_size: int, length_penalty: float, eos_id: int, start: Path = EMPTY) -> None:
        self.live = [start]
        self.finished: list[Path] = []
        self._beam_size = beam_size
        self._length_penalty = length_penalty
        self._eos_id = eos_id

    def advance(self, extensions: Iterable[Extension]) -> list[Extension]:
        """Take a step's best `2 * beam_size` in their order; return the next live ones, none if the search is done.

        An extension of probability 0, and all after it, do not count.
        """
        survivors: list[Extension] = []
        for rank, extension in enumerate(extensions):
            if extension.total == -math.inf or len(survivors) == self._beam_size:
                break
            if extension.choice.token != self._eos_id:
                survivors.append(extension)
            elif rank < self._beam_size:
                self.finished.append(self._extended(extension))
        if len(self.finished) >= self._beam_size:
            survivors = []
        self.live = [self._extended(survivor) for survivor in survivors]
        return survivors

    def best(self, count: int) -> list[Path]:
        """Return the best hypotheses; unfinished ones were cut at the length limit."""
        return sorted(self.finished + self.live, key=self.score, reverse=True)[:count]

    def settled(self, known: int) -> list[Choice]:
        """Return the tokens after `known` that all possible winners share; later steps never change them.

        Possible winners are the live hypotheses and the best finished one: every later winner descends from one of
        them, or is one.
        """
        contenders = [*self.live, max(self.finished, key=self.score)] if self.finished else self.live
        first, *others = contenders
        shortest = min(len(path.choices) for path in contenders)
        end = known
        while end < shortest and all(_agree(first.choices[end], path.choices[end]) for path in others):
            end += 1
        return first.choices[known:end]

    def score(self, path: Path) -> float:
        """Return the sum of log-probabilities, divided by (number of tokens, eos included) ** length penalty."""
        return path.total / math.pow(len(path.choices), self._length_penalty)

    def _extended(self, extension: Extension) -> Path:
        return self.live[extension.parent].extended(extension)


def _agree(one: Choice, other: Choice) -> bool:
    return one.token == other.token and one.term == other.term
