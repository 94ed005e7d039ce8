"""LibreTranslate's request and response of a translation, with our options."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final, Literal, NamedTuple

import msgspec
from pydantic import BaseModel, Field

from service.api.request_body import (
    Alternatives,
    ApiKey,
    Entries,
    Flag,
    LanguageCode,
    OtherApiKey,
    Secret,
    StrictBody,
    Texts,
)
from service.errors import InvalidRequest
from service.text.glossary import Glossary
from service.translation.events import Finished
from service.translation.options import MAX_BEAM_SIZE, Beam, Constraints, Inspect, Sampling, TranslationOptions

MAX_SEED: Final = 2**63 - 1
_MAX_TOP_K: Final = 2**31 - 1  # more than any vocabulary
_MAX_CANDIDATES: Final = 20
_MAX_NGRAM: Final = 64
_ALTERNATIVES_BEAM: Final = 4
"""Least beam width for alternatives: a narrower beam finds worse ones. LibreTranslate also uses 4."""


class AnswerShape(NamedTuple):
    """The shape of a response: arrays if `q` was one, and the extras that were requested."""

    is_array: bool = False
    alternatives: bool = False
    scores: bool = False
    matches: bool = False


class TranslateRequest(StrictBody):
    """The request of LibreTranslate with additional options. Unknown fields are refused."""

    q: Texts = Field(description="text to translate, or several", examples=["I see a cat."])
    source: LanguageCode = Field(
        description="language code of the text, in capitals or not, with a country or not; auto detects it, for each "
        "text of an array by itself. Text that is already in the target language is copied",
        examples=["en"],
    )
    target: LanguageCode = Field(description="language code to translate into, as that of source", examples=["fr"])
    format: Literal["text", "html", ""] = Field(
        default="text",
        description="html: tags, attributes and comments are kept; inline tags follow their words, and so come with "
        'the last token of their sentence; not translated are code, scripts, translate="no" and class="notranslate". '
        "Empty is text",
    )
    alternatives: Alternatives = 0
    api_key: ApiKey = None
    apiKey: OtherApiKey = None
    secret: Secret = None
    stream: Flag = Field(default=False, description="respond with server-sent events")
    temperature: float = Field(default=0.0, ge=0.0, le=10.0, description="0 is greedy")
    top_k: int = Field(default=0, ge=0, le=_MAX_TOP_K, description="sample from the k best tokens; 0 from all")
    top_p: float = Field(
        default=1.0,
        gt=0.0,
        le=1.0,
        description="sample from the most probable tokens whose probabilities have this sum",
    )
    seed: int = Field(default=0, ge=0, le=MAX_SEED, description="same seed, same sample")
    beam_size: int | None = Field(
        default=None,
        ge=1,
        le=MAX_BEAM_SIZE,
        description="beam width; 1, the default, disables beam search. With alternatives the default is one more "
        f"than their number, and at least {_ALTERNATIVES_BEAM} where the server's limit allows",
    )
    length_penalty: float = Field(
        default=1.0, ge=0.0, le=10.0, description="beam search divides scores by the length to this power"
    )
    repetition_penalty: float = Field(
        default=1.0, ge=0.1, le=10.0, description="above 1, tokens that occur already become less probable"
    )
    no_repeat_ngram_size: int = Field(
        default=0, ge=0, le=_MAX_NGRAM, description="no sequence of this many tokens occurs twice; 0 disables the rule"
    )
    glossary: Entries = Field(
        default={},
        description="translations of terms, written so wherever the term is a whole word of the text; one in lower "
        "case is also found all in capitals, and with a capital at the beginning of a sentence",
        examples=[{"cat": "matou"}],
    )
    glossary_id: str | None = Field(
        default=None, max_length=200, description="id or name of a stored glossary, instead of `glossary`"
    )
    target_prefix: str = Field(
        default="", description="beginning of the translation, which is continued; for a text of one sentence"
    )
    top_candidates: int = Field(
        default=0,
        ge=0,
        le=_MAX_CANDIDATES,
        description="number of most probable candidates that are sent with each streamed token",
    )
    alignment: Flag = Field(
        default=False, description="with each streamed token, the source characters with the highest weight"
    )
    attention: Flag = Field(default=False, description="as alignment, with all weights over the tokens of the sentence")
    self_attention: Flag = Field(
        default=False,
        description="with each streamed token, the decoder's attention to its own text: for each layer the weights of "
        "the start and of all earlier tokens, the mean of the heads; about 7 bytes for each layer and pair of tokens "
        "in a sentence",
    )
    hypotheses: Flag = Field(
        default=False, description="after each step of beam search, an event with the live hypotheses"
    )
    scores: Flag = Field(default=False, description="return the mean log-probability of the tokens of each text")
    matches: Flag = Field(
        default=False,
        description="return the units of the server's translation memory that are most like a sentence, with the per "
        "cent of equal characters",
    )
    max_new_tokens: int | None = Field(default=None, ge=1, description="per sentence, a target prefix included")
    timeout_seconds: float | None = Field(default=None, gt=0.0, le=3600.0)

    def check_without_stream(self) -> None:
        """Raise `InvalidRequest` for options that only the events of a stream can carry."""
        for field in ("top_candidates", "alignment", "attention", "self_attention", "hypotheses"):
            if getattr(self, field):
                raise InvalidRequest(field, "is sent in the events of a stream: set stream")

    def options(self, max_beam_size: int) -> TranslationOptions:
        """Build the options of a translation; `max_beam_size` limits only the default beam width.

        Raises `InvalidRequest` for options that exclude one another.
        """
        if self.glossary and self.glossary_id:
            raise InvalidRequest("glossary_id", "the request has a glossary already")
        beam = self._beam(max_beam_size)
        return TranslationOptions(
            sampling=Sampling(self.temperature, self.top_k, self.top_p, self.seed),
            has_seed="seed" in self.model_fields_set,
            beam=beam,
            constraints=Constraints(self.repetition_penalty, self.no_repeat_ngram_size),
            target_prefix=self.target_prefix,
            glossary=Glossary(self.glossary),
            inspect=Inspect(
                self.top_candidates,
                self._sends_alignment(),
                self.attention,
                self.self_attention,
                self._sends_hypotheses(beam),
            ),
            is_html=self.format == "html",
            shows_matches=self.matches,
            max_new_tokens=self.max_new_tokens,
            timeout_seconds=self.timeout_seconds,
        )

    def _sends_hypotheses(self, beam: Beam) -> bool:
        if self.hypotheses and beam.size == 1:
            raise InvalidRequest("hypotheses", "need beam search: set beam_size above 1")
        if self.hypotheses and self.format == "html":
            raise InvalidRequest("hypotheses", "are not available with html: they have no tags yet")
        return self.hypotheses

    def _sends_alignment(self) -> bool:
        for field in ("alignment", "attention"):
            if getattr(self, field) and self.format == "html":
                raise InvalidRequest(field, "is not available with html, which writes characters as references")
        return self.alignment or self.attention

    def _beam(self, max_size: int) -> Beam:
        wide = max(self.alternatives + 1, min(_ALTERNATIVES_BEAM, max_size))
        size = self.beam_size or (wide if self.alternatives else 1)
        if size <= self.alternatives:
            raise InvalidRequest("beam_size", f"must be at least {self.alternatives + 1} for so many alternatives")
        if size > 1 and self.temperature > 0:
            cause = "beam_size above 1" if self.beam_size else "alternatives"
            raise InvalidRequest("temperature", f"must be 0 with {cause}: beam search does not sample")
        return Beam(size, self.length_penalty, self.alternatives)

    def texts(self) -> list[str]:
        return [self.q] if isinstance(self.q, str) else self.q

    def characters(self) -> int:
        """Count the characters that are charged for the request."""
        return sum(map(len, self.texts()))

    def shape(self) -> AnswerShape:
        return AnswerShape(
            isinstance(self.q, list), alternatives=self.alternatives > 0, scores=self.scores, matches=self.matches
        )

    def name(self) -> str:
        """Hash every field that affects the event stream: requests with the same name have the same events.

        `glossary_id` must be an id, not a name. A long glossary takes some milliseconds.
        """
        fields = self.model_dump_json(exclude={"api_key", "apiKey", "secret", "stream", "timeout_seconds"})
        return hashlib.sha256(fields.encode()).hexdigest()


class StreamQuery(TranslateRequest):
    """The same request in a URL, with one text."""

    q: str = Field(description="text to translate", examples=["I see a cat."])


class DetectedLanguage(BaseModel):
    language: str = Field(description="language code", examples=["en"])
    confidence: float = Field(ge=0.0, le=100.0, description="in whole per cent", examples=[97.0])


class MatchedUnit(BaseModel):
    source: str
    target: str
    score: float = Field(ge=0.0, le=100.0, description="per cent of equal characters", examples=[92.5])


class TranslateResponse(BaseModel):
    """The response of a translation. If `q` is an array, each field is one too. Only requested fields are present."""

    translatedText: str | list[str] = Field(examples=["Je vois un chat."])
    alternatives: list[str] | list[list[str]] = Field(
        default=[],
        description="other translations, the best first; of several sentences, the i-th best of each",
        examples=[["Je vois une chatte."]],
    )
    scores: float | list[float | None] | None = Field(
        default=None,
        description="mean log-probability of a text's tokens; null if nothing was translated",
        examples=[-0.15],
    )
    alternativeScores: list[float | None] | list[list[float | None]] = Field(
        default=[], description="scores of the alternatives", examples=[[-0.42]]
    )
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = Field(
        default=None, description="if source is auto"
    )
    matches: list[MatchedUnit] | list[list[MatchedUnit]] = Field(
        default=[], description="units of the translation memory that are like the sentences, the best first for each"
    )
    pivot: str | list[str | None] | None = Field(
        default=None,
        description="the language between, if no model translates directly from source into target",
        examples=["en"],
    )


def answer(finished: Finished, shape: AnswerShape) -> dict[str, object]:
    """Build the fields of LibreTranslate's response, and ours."""
    texts = finished.translations
    fields: dict[str, list[object]] = {"translatedText": [text.text for text in texts]}
    if shape.alternatives:
        fields["alternatives"] = [[each.text for each in text.alternatives] for text in texts]
    if shape.scores:
        fields["scores"] = [text.score for text in texts]
    if shape.scores and shape.alternatives:
        fields["alternativeScores"] = [[each.score for each in text.alternatives] for text in texts]
    if shape.matches:
        fields["matches"] = [[*map(msgspec.structs.asdict, text.matches)] for text in texts]
    if finished.detected:
        fields["detectedLanguage"] = [asdict(each) for each in finished.detected]
    if finished.pivots:
        fields["pivot"] = [*finished.pivots]
    return shaped(fields, shape)


def shaped(fields: Mapping[str, list[object]], shape: AnswerShape) -> dict[str, object]:
    """Return each field as a list, or as the value for the only text."""
    return {name: values if shape.is_array else values[0] for name, values in fields.items()}
