"""The events of a translation, in the order of its text; `api.sse` sends them."""

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from service.engine.messages import FinishReason
from service.text.language_detection import Detected
from service.text.segment import Match


class Started(Struct, frozen=True):
    """The request was accepted."""

    id: str
    """The `X-Request-ID` of a stream over HTTP, which is also in the log."""
    source: str
    """The language of the first text."""
    target: str
    detected: Sequence[Detected] = ()
    """The language of each text, if it was detected."""
    pivots: Sequence[str | None] = ()
    """The pivot language of each text; () if there is none."""


class Candidate(Struct, frozen=True):
    """A possible token: its text, "" for the end of the sentence."""

    text: str
    logprob: float


class Alignment(Struct, frozen=True):
    """The part of the text that a token attends to most: characters `start` to `end`, and its share of attention."""

    start: int
    end: int
    weight: float


class TokenGenerated(Struct, frozen=True):
    """The text that a token completed. White space around a sentence is sent with its first and last token."""

    segment: int
    index: int
    text: str
    logprob: float | None
    candidates: list[Candidate] | UnsetType = UNSET
    """The most probable tokens at its place, the best first; unset unless requested."""
    alignment: Alignment | UnsetType | None = UNSET
    """None if it comes from no character of the text; unset unless requested."""
    attention: list[float] | UnsetType = UNSET
    """The weight of each source token of the segment, with a sum of 1 except for rounding; unset unless requested."""
    source_tokens: Sequence[tuple[int, int] | None] | UnsetType = UNSET
    """The span of each source token in the text; only with the first token of a segment, if attention was
    requested."""
    self_attention: list[list[float]] | UnsetType = UNSET
    """Weights of the decoder's inputs for each decoder layer: its start token, the prompt (the target language of
    a multilingual model), and the tokens before this one. The mean of the heads, with a sum of 1 except for rounding;
    empty where the decoder has no self-attention; unset unless requested."""


class Hypothesis(Struct, frozen=True):
    """A live hypothesis of a beam: its text so far, and the mean log-probability of its tokens."""

    text: str
    score: float


class BeamStepped(Struct, frozen=True):
    """The live hypotheses of a segment after a step of its beam, the best first; only if requested."""

    segment: int
    step: int
    hypotheses: list[Hypothesis]


class Alternative(Struct, frozen=True):
    """Another translation of a segment or a text; `score` is computed as for the first."""

    text: str
    score: float | None


class SegmentFinished(Struct, frozen=True):
    """The end of a segment: `text` joins the texts of its tokens, `score` is their mean log-probability."""

    segment: int
    text_index: int
    text: str
    score: float | None
    finish_reason: FinishReason | Literal["copied", "memory"]
    source: tuple[int, int]
    """Characters `start` to `end` of the text: the sentence that it translates, without white space around it."""
    alternatives: list[Alternative] | UnsetType = UNSET
    """The next best, as the beam ranks them; unset unless requested."""
    matches: Sequence[Match] | UnsetType = UNSET
    """The units of a translation memory most like its sentence; unset unless requested."""


class ModelLoading(Struct, frozen=True):
    """The progress of a model that is fetched for this request; not numbered, as another server may have the model."""

    model: str
    step: str
    """`downloading`, `importing`, `loading`, ..."""
    percent: int | None
    """The part of the download that is here; None where it is not known."""


class TextTranslated(Struct, frozen=True):
    """The translation of one text, the mean log-probability of its tokens, and its alternatives."""

    text: str
    score: float | None
    alternatives: list[Alternative]
    matches: Sequence[Match] = ()
    """Matches of its sentences, in order."""


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
    """The language of each text, if it was detected."""
    pivots: Sequence[str | None] = ()
    """The pivot language of each text; () if there is none."""


Event = Started | ModelLoading | TokenGenerated | BeamStepped | SegmentFinished | Finished
