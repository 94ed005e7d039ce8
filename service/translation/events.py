"""What happens to a translation, in the order of its text; `api.sse` sends these."""

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from service.engine.messages import FinishReason
from service.text.language_detection import Detected


class Started(Struct, frozen=True):
    """The request was accepted."""

    id: str
    source: str
    target: str
    detected: Sequence[Detected] = ()
    """The language of each text, where it was not given."""
    pivots: Sequence[str | None] = ()
    """The language between, of each text; () where there is none."""


class Candidate(Struct, frozen=True):
    """A token that was possible at some place: the text it stands for, "" for the end of the sentence."""

    text: str
    logprob: float


class Alignment(Struct, frozen=True):
    """The part of its text that a token comes from most: characters `start` to `end`, and its share of attention."""

    start: int
    end: int
    weight: float


class TokenGenerated(Struct, frozen=True):
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


class Hypothesis(Struct, frozen=True):
    """What a beam may still go on with: its text so far, and the mean log-probability of its tokens."""

    text: str
    score: float


class BeamStepped(Struct, frozen=True):
    """The live hypotheses of a segment after a step of its beam, the best first; only where they were asked for."""

    segment: int
    step: int
    hypotheses: list[Hypothesis]


class Alternative(Struct, frozen=True):
    """Another translation of a segment or a text; `score` as that of the first."""

    text: str
    score: float | None


class SegmentFinished(Struct, frozen=True):
    """`text` is what the segment's tokens add up to; `score` their mean log-probability."""

    segment: int
    text_index: int
    text: str
    score: float | None
    finish_reason: FinishReason | Literal["copied"]
    alternatives: list[Alternative] | UnsetType = UNSET
    """The next best, as the beam ranks them; unset unless they were asked for."""


class TextTranslated(Struct, frozen=True):
    """One whole text: its translation, the mean log-probability of its tokens, and what else it could be."""

    text: str
    score: float | None
    alternatives: list[Alternative]


class Usage(Struct, frozen=True):
    segments: int
    source_tokens: int
    generated_tokens: int


class Timings(Struct, frozen=True):
    time_to_first_token_seconds: float
    total_seconds: float


class Finished(Struct, frozen=True):
    """One translation for each text, in order."""

    translations: list[TextTranslated]
    usage: Usage
    timings: Timings
    detected: Sequence[Detected] = ()
    """The language of each text, where it was not given."""
    pivots: Sequence[str | None] = ()
    """The language between, of each text; () where there is none."""


Event = Started | TokenGenerated | BeamStepped | SegmentFinished | Finished
