"""The table of exchanges, a row for each imitated server, in the shapes of its documentation."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, WithJsonSchema

from service.api.compat.exchange import (
    PAGE_OPTIONS,
    Exchange,
    ForeignBody,
    Translated,
    Wanted,
    markup_options,
    names_of,
)
from service.api.request_body import LanguageCode, Texts
from service.errors import MissingField
from service.translation.options import TranslationOptions
from service.translation.translator import AUTOMATIC, FieldNames

_Source = str | None


class ImmersiveBody(ForeignBody):
    """The request of Immersive Translate's custom API."""

    source_lang: _Source = Field(default=AUTOMATIC, max_length=16, examples=["en"])
    target_lang: LanguageCode = Field(examples=["fr"])
    text_list: list[str] = Field(examples=[["I see a cat."]])

    def wanted(self) -> Wanted:
        return Wanted(self.text_list, self.source_lang or AUTOMATIC, self.target_lang, PAGE_OPTIONS)

    def answer(self, done: Translated) -> object:
        pairs = zip(done.sources, done.texts, strict=True)
        return {"translations": [{"detected_source_lang": source, "text": text} for source, text in pairs]}


class KissBody(ForeignBody):
    """The request of KISS Translator's custom API: one text, or several."""

    text: str | None = Field(default=None, examples=["I see a cat."])
    texts: list[str] | None = None
    from_: _Source = Field(default=AUTOMATIC, alias="from", max_length=16, examples=["en"])
    to: LanguageCode = Field(examples=["fr"])

    def wanted(self) -> Wanted:
        if self.text is None and self.texts is None:
            raise MissingField("text", "field required, or texts")
        texts = [self.text or ""] if self.texts is None else self.texts
        return Wanted(texts, self.from_ or AUTOMATIC, self.to, PAGE_OPTIONS)

    def answer(self, done: Translated) -> object:
        translations = [{"text": text, "src": source} for source, text in zip(done.sources, done.texts, strict=True)]
        return translations[0] if self.texts is None else translations


class LingarrLine(BaseModel):
    """A line of a subtitle."""

    position: int
    line: str


_LINES: Final[dict[str, Any]] = {"type": "array", "items": LingarrLine.model_json_schema()}
"""Without a reference: nothing resolves it in the description of a route."""


class LingarrBody(ForeignBody):
    """The request that Bazarr sends to Lingarr."""

    lines: Annotated[list[LingarrLine], WithJsonSchema(_LINES)] = Field(
        examples=[[{"position": 1, "line": "I see a cat."}]]
    )
    sourceLanguage: _Source = Field(default=AUTOMATIC, max_length=16, examples=["en"])
    targetLanguage: LanguageCode = Field(examples=["fr"])

    def wanted(self) -> Wanted:
        texts = [each.line for each in self.lines]
        return Wanted(texts, self.sourceLanguage or AUTOMATIC, self.targetLanguage, TranslationOptions())

    def answer(self, done: Translated) -> object:
        pairs = zip(self.lines, done.texts, strict=True)
        return [{"position": each.position, "line": text} for each, text in pairs]


class DeepLXError(BaseModel):
    code: int = Field(description="the status", examples=[400])
    message: str = Field(examples=["target_lang: field required"])


class DeepLXBody(ForeignBody):
    """The request of DeepLX."""

    text: str = Field(examples=["I see a cat."])
    source_lang: _Source = Field(default=AUTOMATIC, max_length=16, examples=["EN"])
    target_lang: LanguageCode = Field(examples=["FR"])
    tag_handling: Literal["", "html", "xml"] | None = None

    def wanted(self) -> Wanted:
        return Wanted([self.text], self.source_lang or AUTOMATIC, self.target_lang, markup_options(self.tag_handling))

    def answer(self, done: Translated) -> object:
        return {
            "code": 200,
            "id": 0,
            "data": done.texts[0],
            "alternatives": done.alternatives[0],
            "source_lang": done.source.upper(),
            "target_lang": done.target.upper(),
            "method": "Free",
        }


class GoogleProblem(BaseModel):
    code: int = Field(examples=[400])
    message: str = Field(examples=["target: field required"])
    status: str = Field(examples=["invalid_request"])


class GoogleError(BaseModel):
    error: GoogleProblem


class GoogleBody(ForeignBody):
    """The request of Google's Cloud Translation, version 2. Its texts are HTML unless the format is text."""

    q: Texts = Field(examples=["I see a cat."])
    target: LanguageCode = Field(examples=["fr"])
    source: _Source = Field(default=AUTOMATIC, max_length=16, examples=["en"])
    format: Literal["html", "text"] = "html"

    def wanted(self) -> Wanted:
        texts = [self.q] if isinstance(self.q, str) else self.q
        return Wanted(texts, self.source or AUTOMATIC, self.target, markup_options(self.format))

    def answer(self, done: Translated) -> object:
        def translation(text: str, source: str) -> dict[str, str]:
            detected = {} if self.source not in (AUTOMATIC, "", None) else {"detectedSourceLanguage": source}
            return {"translatedText": text, **detected}

        return {"data": {"translations": [*map(translation, done.texts, done.sources)]}}


class GoogleSingleBody(ForeignBody):
    """The request that extensions send to Google's page, `translate_a/single`."""

    q: Texts = Field(examples=["I see a cat."])
    sl: _Source = Field(default=AUTOMATIC, max_length=16, examples=["en"])
    tl: LanguageCode = Field(examples=["fr"])
    dj: str = Field(default="0", description="1: objects instead of arrays")

    def wanted(self) -> Wanted:
        texts = [self.q] if isinstance(self.q, str) else self.q
        return Wanted(texts, self.sl or AUTOMATIC, self.tl, PAGE_OPTIONS)

    def answer(self, done: Translated) -> object:
        pairs = [*zip(done.texts, done.originals, strict=True)]
        if self.dj == "1":
            return {"sentences": [{"trans": text, "orig": original} for text, original in pairs], "src": done.source}
        return [[[text, original, None, None, 1] for text, original in pairs], None, done.source]


class NllbBody(ForeignBody):
    """The request of nllb-serve, with codes as `eng_Latn` or any others."""

    source: Texts = Field(examples=[["I see a cat."]])
    src_lang: LanguageCode = Field(examples=["eng_Latn"])
    tgt_lang: LanguageCode = Field(examples=["fra_Latn"])

    def wanted(self) -> Wanted:
        texts = [self.source] if isinstance(self.source, str) else self.source
        return Wanted(texts, self.src_lang, self.tgt_lang, TranslationOptions())

    def answer(self, done: Translated) -> object:
        return {
            "source": done.originals,
            "translation": done.texts,
            "src_lang": self.src_lang,
            "tgt_lang": self.tgt_lang,
            "time_taken": round(done.seconds, 3),
            "time_units": "s",
        }


_BOTH: Final = ("GET", "POST")
EXCHANGES: Final[Sequence[Exchange]] = (
    Exchange(
        "/compat/immersive/translate",
        "As the custom API of Immersive Translate",
        ImmersiveBody,
        names_of("text_list", "source_lang", "target_lang"),
    ),
    Exchange(
        "/compat/kiss/translate",
        "As the custom API of KISS Translator",
        KissBody,
        names_of("text", "from", "to"),
    ),
    Exchange(
        "/compat/deeplx/translate",
        "As DeepLX",
        DeepLXBody,
        names_of("text", "source_lang", "target_lang"),
        DeepLXError,
    ),
    Exchange(
        "/compat/google/language/translate/v2",
        "As Google's Cloud Translation, version 2",
        GoogleBody,
        names_of("q", "source", "target"),
        GoogleError,
        _BOTH,
    ),
    Exchange(
        "/compat/google/translate_a/single",
        "As Google's page",
        GoogleSingleBody,
        names_of("q", "sl", "tl"),
        GoogleError,
        _BOTH,
    ),
    Exchange(
        "/compat/lingarr/api/translate/content",
        "As Lingarr, for Bazarr",
        LingarrBody,
        names_of("lines", "sourceLanguage", "targetLanguage"),
    ),
    Exchange(
        "/nllb/translate",
        "As nllb-serve",
        NllbBody,
        FieldNames("source", "src_lang", "tgt_lang", automatic=()),
        methods=_BOTH,
    ),
)
