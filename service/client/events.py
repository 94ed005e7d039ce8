"""What travels: the options of a request, the events of a stream, and what they amount to."""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypedDict

import msgspec

from service.client.errors import Busy, NotDragoman, Refused

# Of errors that pass; they can come in the middle of a stream too.
_BUSY_CODES: Final = frozenset({"queue_full", "rate_limited", "not_ready"})


class Options(TypedDict, total=False):
    """What `POST /translate` takes besides text and languages; the README says what each does."""

    format: str
    glossary: Mapping[str, str]
    glossary_id: str
    alternatives: int
    temperature: float
    top_k: int
    top_p: float
    seed: int
    beam_size: int
    length_penalty: float
    repetition_penalty: float
    no_repeat_ngram_size: int
    target_prefix: str
    top_candidates: int
    alignment: bool
    attention: bool
    self_attention: bool
    hypotheses: bool
    scores: bool
    max_new_tokens: int
    timeout_seconds: float


class Candidate(msgspec.Struct, frozen=True):
    text: str
    logprob: float


class Alignment(msgspec.Struct, frozen=True):
    start: int
    end: int
    weight: float


class Scored(msgspec.Struct, frozen=True):
    text: str
    score: float | None = None


class Usage(msgspec.Struct, frozen=True):
    segments: int
    source_tokens: int
    generated_tokens: int


class Timings(msgspec.Struct, frozen=True):
    """`time_to_first_token_seconds` and `total_seconds`, as the server measured them."""

    time_to_first_token_seconds: float
    total_seconds: float


class Detected(msgspec.Struct, frozen=True):
    """A language, and how sure that is, in per cent."""

    language: str
    confidence: float


class Start(msgspec.Struct, frozen=True):
    """The server has accepted the request.

    `detectedLanguage` is there where the source was "auto": one, or for a list of texts one of each.
    """

    id: str
    source: str
    target: str
    detectedLanguage: Detected | list[Detected] | None = None
    pivot: str | list[str | None] | None = None
    """The language between, where no model translates at once; of several texts, that of each."""


class Token(msgspec.Struct, frozen=True):
    """Text that a token has completed; all of them together are the translation."""

    segment: int
    index: int
    text: str
    logprob: float | None = None
    candidates: list[Candidate] = []
    alignment: Alignment | None = None
    attention: list[float] = []
    source_tokens: list[tuple[int, int] | None] = []
    self_attention: list[list[float]] = []


class Hypotheses(msgspec.Struct, frozen=True):
    """What a beam may still go on with after a step, the best first."""

    segment: int
    step: int
    hypotheses: list[Scored]


class Segment(msgspec.Struct, frozen=True):
    """A sentence is complete."""

    segment: int
    text_index: int
    text: str
    score: float | None
    finish_reason: Literal["stop", "length", "copied"]
    alternatives: list[Scored] = []


class Done(msgspec.Struct, frozen=True):
    """The last event of a stream. Its fields have the shape of the text: a string's, or a list's."""

    translatedText: str | list[str]
    usage: Usage
    timings: Timings
    alternatives: list[str | list[str]] = []
    scores: float | list[float | None] | None = None
    alternativeScores: list[float | list[float | None] | None] = []
    detectedLanguage: Detected | list[Detected] | None = None


Event = Start | Token | Hypotheses | Segment | Done


class Translation(msgspec.Struct, frozen=True):
    """One text's translation, and what else was asked for."""

    text: str
    score: float | None = None
    alternatives: list[Scored] = []
    detected: Detected | None = None
    """The language of the text, where the source was "auto"."""


class Language(msgspec.Struct, frozen=True):
    """A language that the server knows, and into which it can be translated, or copied: itself."""

    code: str
    name: str
    targets: list[str] = []


class Error(msgspec.Struct):
    error: str
    code: str = "error"


_EVENTS: Final[Mapping[str, type[Event]]] = {
    "start": Start,
    "token": Token,
    "hypotheses": Hypotheses,
    "segment": Segment,
    "done": Done,
}


def event_of(name: str, data: bytes | str) -> Event | None:
    """An event from the wire, None if it is of a kind that this version does not know; raises `ClientError`."""
    try:
        if name == "error":
            error = msgspec.json.decode(data, type=Error)
            kind = Busy if error.code in _BUSY_CODES else Refused
            raise kind(error.error, error.code, None)
        return msgspec.json.decode(data, type=_EVENTS[name]) if name in _EVENTS else None
    except msgspec.DecodeError as error:
        raise NotDragoman(f"an event {name!r} is not what a server sends: {error}") from None


def translations_of(done: Done) -> list[Translation]:
    """One for each text."""
    several = isinstance(done.translatedText, list)

    def each(value: Any) -> list[Any]:
        return value if several else [value]

    texts = each(done.translatedText)
    nothing: list[Any] = [None] * len(texts)
    alternatives = each(done.alternatives) if done.alternatives else nothing
    scores = each(done.scores) if done.scores is not None else nothing
    others = each(done.alternativeScores) if done.alternativeScores else nothing
    detected = each(done.detectedLanguage) if done.detectedLanguage is not None else nothing
    return [
        Translation(
            text,
            score,
            [Scored(*pair) for pair in zip(mine or [], own or [None] * len(mine or []), strict=True)],
            language,
        )
        for text, score, mine, own, language in zip(texts, scores, alternatives, others, detected, strict=True)
    ]
