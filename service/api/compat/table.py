"""The routes for clients of other servers, a class for each server, in the shapes of its documentation."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from service.api.batches import Translated, Wanted, translated
from service.api.context import CallerDependency, ServiceDependency
from service.api.openapi import CALLER_ERRORS, ErrorResponse, body_of, errors_of
from service.api.request_body import LanguageCode, RequestBody, Texts, parse_body
from service.errors import MissingField
from service.text.xml import XmlTags
from service.translation.options import TranslationOptions
from service.translation.translator import AUTOMATIC, FieldNames

Source = Annotated[str, Field(max_length=16)]
"""The language of a text, which is detected if it is empty or `auto`."""
_PAGE_OPTIONS: Final = TranslationOptions(copies_foreign=True)
"""Options for texts of web pages, which cannot show an error beside each text."""


class ForeignBody(RequestBody):
    """A request of another server's client. Unknown fields are ignored, as those servers do."""

    model_config = ConfigDict(extra="ignore")

    path: ClassVar[str]
    summary: ClassVar[str]
    names: ClassVar[FieldNames]
    error: ClassVar[type[BaseModel]] = ErrorResponse
    methods: ClassVar[Sequence[str]] = ("POST",)

    @abstractmethod
    def wanted(self) -> Wanted:
        """Return the wanted translation. Raises `InvalidRequest`."""

    @abstractmethod
    def answer(self, done: Translated) -> object:
        """Return the answer, in the shape that the client reads."""


def names_of(text: str, source: str, target: str) -> FieldNames:
    """Return the field names of a server that detects the source if it is empty or `auto`."""
    return FieldNames(text, source, target, automatic=(AUTOMATIC, ""))


def markup_options(markup: str | None) -> TranslationOptions:
    """Return options for a text of a web page in `html`, `xml` or, by default, no markup."""
    xml = XmlTags() if markup == "xml" else None
    return TranslationOptions(copies_foreign=True, is_html=markup == "html", xml=xml)


class ImmersiveBody(ForeignBody):
    """The request of Immersive Translate's custom API."""

    path = "/compat/immersive/translate"
    summary = "As the custom API of Immersive Translate"
    names = names_of("text_list", "source_lang", "target_lang")

    source_lang: Source = Field(default=AUTOMATIC, examples=["en"])
    target_lang: LanguageCode = Field(examples=["fr"])
    text_list: list[str] = Field(examples=[["I see a cat."]])

    def wanted(self) -> Wanted:
        return Wanted(self.text_list, self.source_lang, self.target_lang, _PAGE_OPTIONS)

    def answer(self, done: Translated) -> object:
        pairs = zip(done.sources, done.texts, strict=True)
        return {"translations": [{"detected_source_lang": source, "text": text} for source, text in pairs]}


class KissBody(ForeignBody):
    """The request of KISS Translator's custom API: one text, or several."""

    path = "/compat/kiss/translate"
    summary = "As the custom API of KISS Translator"
    names = names_of("text", "from", "to")

    text: str | None = Field(default=None, examples=["I see a cat."])
    texts: list[str] | None = None
    from_: Source = Field(default=AUTOMATIC, alias="from", examples=["en"])
    to: LanguageCode = Field(examples=["fr"])

    def wanted(self) -> Wanted:
        if self.text is None and self.texts is None:
            raise MissingField("text", "field required, or texts")
        texts = [self.text or ""] if self.texts is None else self.texts
        return Wanted(texts, self.from_, self.to, _PAGE_OPTIONS)

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

    path = "/compat/lingarr/api/translate/content"
    summary = "As Lingarr, for Bazarr"
    names = names_of("lines", "sourceLanguage", "targetLanguage")

    lines: Annotated[list[LingarrLine], WithJsonSchema(_LINES)] = Field(
        examples=[[{"position": 1, "line": "I see a cat."}]]
    )
    sourceLanguage: Source = Field(default=AUTOMATIC, examples=["en"])
    targetLanguage: LanguageCode = Field(examples=["fr"])

    def wanted(self) -> Wanted:
        texts = [each.line for each in self.lines]
        return Wanted(texts, self.sourceLanguage, self.targetLanguage, TranslationOptions())

    def answer(self, done: Translated) -> object:
        pairs = zip(self.lines, done.texts, strict=True)
        return [{"position": each.position, "line": text} for each, text in pairs]


class DeepLXError(BaseModel):
    code: int = Field(description="the status", examples=[400])
    message: str = Field(examples=["target_lang: field required"])


class DeepLXBody(ForeignBody):
    """The request of DeepLX."""

    path = "/compat/deeplx/translate"
    summary = "As DeepLX"
    names = names_of("text", "source_lang", "target_lang")
    error = DeepLXError

    text: str = Field(examples=["I see a cat."])
    source_lang: Source = Field(default=AUTOMATIC, examples=["EN"])
    target_lang: LanguageCode = Field(examples=["FR"])
    tag_handling: Literal["", "html", "xml"] | None = None

    def wanted(self) -> Wanted:
        return Wanted([self.text], self.source_lang, self.target_lang, markup_options(self.tag_handling))

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

    path = "/compat/google/language/translate/v2"
    summary = "As Google's Cloud Translation, version 2"
    names = names_of("q", "source", "target")
    error = GoogleError
    methods = ("GET", "POST")

    q: Texts = Field(examples=["I see a cat."])
    target: LanguageCode = Field(examples=["fr"])
    source: Source = Field(default=AUTOMATIC, examples=["en"])
    format: Literal["html", "text"] = "html"

    def wanted(self) -> Wanted:
        texts = [self.q] if isinstance(self.q, str) else self.q
        return Wanted(texts, self.source, self.target, markup_options(self.format))

    def answer(self, done: Translated) -> object:
        def translation(text: str, source: str) -> dict[str, str]:
            detected = {} if self.source not in (AUTOMATIC, "") else {"detectedSourceLanguage": source}
            return {"translatedText": text, **detected}

        return {"data": {"translations": [*map(translation, done.texts, done.sources)]}}


class GoogleSingleBody(ForeignBody):
    """The request that extensions send to Google's page, `translate_a/single`."""

    path = "/compat/google/translate_a/single"
    summary = "As Google's page"
    names = names_of("q", "sl", "tl")
    error = GoogleError
    methods = ("GET", "POST")

    q: Texts = Field(examples=["I see a cat."])
    sl: Source = Field(default=AUTOMATIC, examples=["en"])
    tl: LanguageCode = Field(examples=["fr"])
    dj: str = Field(default="0", description="1: objects instead of arrays")

    def wanted(self) -> Wanted:
        texts = [self.q] if isinstance(self.q, str) else self.q
        return Wanted(texts, self.sl, self.tl, _PAGE_OPTIONS)

    def answer(self, done: Translated) -> object:
        pairs = [*zip(done.texts, done.originals, strict=True)]
        if self.dj == "1":
            return {"sentences": [{"trans": text, "orig": original} for text, original in pairs], "src": done.source}
        return [[[text, original, None, None, 1] for text, original in pairs], None, done.source]


class NllbBody(ForeignBody):
    """The request of nllb-serve, with codes as `eng_Latn` or any others."""

    path = "/nllb/translate"
    summary = "As nllb-serve"
    names = FieldNames("source", "src_lang", "tgt_lang", automatic=())
    methods = ("GET", "POST")

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


BODIES: Final[Sequence[type[ForeignBody]]] = (
    ImmersiveBody,
    KissBody,
    DeepLXBody,
    GoogleBody,
    GoogleSingleBody,
    LingarrBody,
    NllbBody,
)

router = APIRouter(tags=["as other servers"])


def _handler(model: type[ForeignBody]) -> Callable[..., Awaitable[JSONResponse]]:
    async def handle(request: Request, service: ServiceDependency, caller: CallerDependency) -> JSONResponse:
        body = await parse_body(request, model, or_url=True)
        return JSONResponse(body.answer(await translated(request, service, caller, body.wanted(), body.names)))

    return handle


for _body in BODIES:
    for _method in _body.methods:
        router.add_api_route(
            _body.path,
            _handler(_body),
            methods=[_method],
            summary=_body.summary,
            responses=errors_of(_body.error, *CALLER_ERRORS, 400, 500, 504),
            response_class=JSONResponse,
            openapi_extra=body_of(_body) if _method == "POST" else None,
        )
