"""The wire types: options of a request, events of a stream, and translations; and the errors that a client raises."""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypedDict

import msgspec

# Codes of temporary errors; a stream can also end with them.
_BUSY_CODES: Final = frozenset({"queue_full", "rate_limited", "not_ready"})


class ClientError(Exception):
    """Base of all errors; `code` is stable and machine-readable, the message is written for people.

    ClientError
    +-- Unreachable     no response, or a broken one, after all retries; or a wrong URL
    +-- NotDragoman     a response of another program
    +-- Refused         the server returns an error: `status`, or None for an error in the middle of a stream
        +-- Busy        too many requests, starting, draining, no model: retry after `retry_after_seconds`, if set
    """

    code = "client_error"


class Unreachable(ClientError):
    code = "unreachable"


class NotDragoman(ClientError):
    code = "not_dragoman"


class Refused(ClientError):
    def __init__(self, message: str, code: str, status: int | None, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.retry_after_seconds = retry_after_seconds


class Busy(Refused):
    pass


class Options(TypedDict, total=False):
    """The fields of `POST /translate` besides text and languages; the API's documentation explains each."""

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
    matches: bool
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


class Match(msgspec.Struct, frozen=True):
    """A unit of the server's translation memory that is like a sentence, by the per cent of equal characters."""

    source: str
    target: str
    score: float


class Usage(msgspec.Struct, frozen=True):
    segments: int
    source_tokens: int
    generated_tokens: int


class Timings(msgspec.Struct, frozen=True):
    """The durations of a request, measured by the server."""

    time_to_first_token_seconds: float
    total_seconds: float


class Detected(msgspec.Struct, frozen=True):
    """A detected language and its confidence in per cent."""

    language: str
    confidence: float


class Start(msgspec.Struct, frozen=True):
    """The first event of a stream: the server has accepted the request.

    `detectedLanguage` is set if the source was "auto": one language, or one for each text of a list.
    """

    id: str
    source: str
    target: str
    detectedLanguage: Detected | list[Detected] | None = None
    pivot: str | list[str | None] | None = None
    """The pivot language, if no model translates directly; a list has one for each text."""


class Loading(msgspec.Struct, frozen=True):
    """The progress of a model that the server fetches for this request; `percent` is its downloaded share."""

    model: str
    step: str
    percent: int | None = None


class Token(msgspec.Struct, frozen=True):
    """The text that one token completes; the texts of all tokens, joined, are the translation."""

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
    """The live hypotheses of a beam after a step, the best first."""

    segment: int
    step: int
    hypotheses: list[Scored]


class Segment(msgspec.Struct, frozen=True):
    """The end of one sentence, with its whole translation."""

    segment: int
    text_index: int
    text: str
    score: float | None
    finish_reason: Literal["stop", "length", "copied", "memory"]
    source: tuple[int, int] | None = None
    """The characters of the text that it translates; None from servers that do not say it."""
    alternatives: list[Scored] = []
    matches: list[Match] = []


class Done(msgspec.Struct, frozen=True):
    """The last event of a stream. Its fields are lists if the request had a list of texts."""

    translatedText: str | list[str]
    usage: Usage
    timings: Timings
    alternatives: list[str | list[str]] = []
    scores: float | list[float | None] | None = None
    alternativeScores: list[float | list[float | None] | None] = []
    matches: list[Match | list[Match]] = []
    detectedLanguage: Detected | list[Detected] | None = None
    pivot: str | list[str | None] | None = None
    """The language between, as in `Start`."""


Event = Start | Loading | Token | Hypotheses | Segment | Done


class Translation(msgspec.Struct, frozen=True):
    """The translation of one text, with the extras that were requested."""

    text: str
    score: float | None = None
    alternatives: list[Scored] = []
    detected: Detected | None = None
    """The detected language of the text, if the source was "auto"."""
    pivot: str | None = None
    """The pivot language, if two models translated the text."""


class Language(msgspec.Struct, frozen=True):
    """A language of the server and its target languages; the language itself is one of them, for a copy."""

    code: str
    name: str
    targets: list[str] = []


class Error(msgspec.Struct):
    error: str
    code: str = "error"
    detail: str = ""
    """The full message, if `error` has LibreTranslate's words."""

    @property
    def message(self) -> str:
        return self.detail or self.error


_EVENTS: Final[Mapping[str, type[Event]]] = {
    "start": Start,
    "loading": Loading,
    "token": Token,
    "hypotheses": Hypotheses,
    "segment": Segment,
    "done": Done,
}


def error_of(error: Error) -> Refused:
    """Return the exception for an error event."""
    return (Busy if error.code in _BUSY_CODES else Refused)(error.message, error.code, None)


def event_of(name: str, data: bytes | str) -> Event | None:
    """Decode an event; None for one that this version does not know. Raises `ClientError`."""
    try:
        if name == "error":
            raise error_of(msgspec.json.decode(data, type=Error))
        return msgspec.json.decode(data, type=_EVENTS[name]) if name in _EVENTS else None
    except msgspec.DecodeError as error:
        raise NotDragoman(f"an event {name!r} cannot be decoded: {error}") from None


def translations_of(done: Done) -> list[Translation]:
    """Return one translation for each text."""
    several = isinstance(done.translatedText, list)

    def each(value: Any) -> list[Any]:
        """Return a value for each text; None where the server sent none."""
        if value is None or value == []:
            return [None] * (len(done.translatedText) if several else 1)
        return value if several else [value]

    fields = (
        done.translatedText,
        done.scores,
        done.alternatives,
        done.alternativeScores,
        done.detectedLanguage,
        done.pivot,
    )
    return [
        Translation(
            text,
            score,
            [Scored(*pair) for pair in zip(mine or [], own or [None] * len(mine or []), strict=True)],
            language,
            pivot,
        )
        for text, score, mine, own, language, pivot in zip(*map(each, fields), strict=True)
    ]
