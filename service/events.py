"""What happens to a translation, in the order of its text; `streaming` sends these."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import UNSET, UnsetType

from service.engine.request import FinishReason
from service.text.detection import Detected


@dataclass(frozen=True, slots=True)
class Started:
    """The request was accepted."""

    id: str
    source: str
    target: str
    detected: Sequence[Detected] = ()
    """The language of each text, where it was not given."""
    pivots: Sequence[str | None] = ()
    """The language between, of each text; () where there is none."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that was possible at some place: the text it stands for, "" for the end of the sentence."""

    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Alignment:
    """The part of its text that a token comes from most: characters `start` to `end`, and its share of attention."""

    start: int
    end: int
    weight: float


@dataclass(frozen=True, slots=True)
class TokenGenerated:
    """Text that a token completed. White space around a sentence travels with its first and last token."""

    segment: int
    index: int
    text: str
    logprob: float | None
    candidates: list[Candidate] | UnsetType = UNSET
    """The most probable tokens at its place, the best first; unset unless they were asked for."""
    alignment: Alignment | UnsetType | None = UNSET
    """None where it comes from no character of the text; unset unless it was asked for."""
    attention: list[float] | UnsetType = UNSET
    """The weight of each of its segment's source tokens, 1 in sum but for rounding; unset unless it was asked for."""
    source_tokens: Sequence[tuple[int, int] | None] | UnsetType = UNSET
    """The characters of its text that each of those stands for, from and up to; with the first token of a segment, if
    attention was asked for."""
    self_attention: list[list[float]] | UnsetType = UNSET
    """Of each decoder layer, in their order, the weights of what the decoder read to write this: its start, what it is
    told before a translation (a model of many languages: into which), and the tokens before this one. The mean of the
    heads, 1 in sum but for rounding; unset unless it was asked for."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What a beam may still go on with: its text so far, and the mean log-probability of its tokens."""

    text: str
    score: float


@dataclass(frozen=True, slots=True)
class BeamStepped:
    """The live hypotheses of a segment after a step of its beam, the best first; only where they were asked for."""

    segment: int
    step: int
    hypotheses: list[Hypothesis]


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another translation of a segment or a text; `score` as that of the first."""

    text: str
    score: float | None


@dataclass(frozen=True, slots=True)
class SegmentFinished:
    """`text` is what the segment's tokens add up to; `score` their mean log-probability."""

    segment: int
    text_index: int
    text: str
    score: float | None
    finish_reason: FinishReason | Literal["copied"]
    alternatives: list[Alternative] | UnsetType = UNSET
    """The next best, as the beam ranks them; unset unless they were asked for."""


@dataclass(frozen=True, slots=True)
class TextTranslated:
    """One whole text: its translation, the mean log-probability of its tokens, and what else it could be."""

    text: str
    score: float | None
    alternatives: list[Alternative]


@dataclass(frozen=True, slots=True)
class Usage:
    segments: int
    source_tokens: int
    generated_tokens: int


@dataclass(frozen=True, slots=True)
class Timings:
    time_to_first_token_seconds: float
    total_seconds: float


@dataclass(frozen=True, slots=True)
class Finished:
    """One translation for each text, in order."""

    translations: list[TextTranslated]
    usage: Usage
    timings: Timings
    detected: Sequence[Detected] = ()
    """The language of each text, where it was not given."""
    pivots: Sequence[str | None] = ()
    """The language between, of each text; () where there is none."""


Event = Started | TokenGenerated | BeamStepped | SegmentFinished | Finished
