"""LibreTranslate's routes about languages: the list, the detection, and the settings of a web page."""

from collections.abc import Iterable
from functools import cache
from typing import Final

from babel import Locale, UnknownLocaleError
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from service.api.context import CallerDependency, ServiceDependency
from service.api.openapi import BAD_INPUT, CALLER_ERRORS, ErrorResponse, body_of, errors_of
from service.api.request_body import ApiKey, Flag, OtherApiKey, Secret, StrictBody, Texts, parse_body
from service.api.translate_request import DetectedLanguage
from service.documents.formats import FORMATS
from service.text.language_detection import detect_any
from service.translation.translator import AUTOMATIC

router = APIRouter(tags=["translation"])

_TYPING_PAUSE_MILLISECONDS: Final = 300
_DETECTION_ERRORS: Final = errors_of(ErrorResponse, *CALLER_ERRORS, 400, own=BAD_INPUT)
_UNAVAILABLE: Final = errors_of(ErrorResponse, 503)


class DetectRequest(StrictBody):
    """The request of LibreTranslate to detect a language. Unknown fields are refused."""

    q: Texts = Field(
        description="text whose language is detected; the texts of an array are joined", examples=["I see a cat."]
    )
    known: Flag = Field(
        default=True, description="false: all languages of the detector are possible, not only those of `/languages`"
    )
    api_key: ApiKey = None
    apiKey: OtherApiKey = None
    secret: Secret = None


class Language(BaseModel):
    """A language and its target languages; the language itself is one of them, for a copy."""

    code: str = Field(examples=["en"])
    name: str = Field(examples=["English"])
    targets: list[str] = Field(examples=[["en", "fr"]])
    downloadable: list[str] | None = Field(
        default=None, description="the targets whose models are downloaded at the first request", examples=[["de"]]
    )


class NamedLanguage(BaseModel):
    code: str = Field(examples=["en"])
    name: str = Field(examples=["English"])


class LanguageChoice(BaseModel):
    source: NamedLanguage
    target: NamedLanguage


class FrontendSettings(BaseModel):
    """LibreTranslate's settings of its page; our page reads the limit and the default languages."""

    charLimit: int = Field(examples=[50_000])
    frontendTimeout: int = Field(
        description="milliseconds of a pause in typing before a page translates", examples=[300]
    )
    apiKeys: bool = Field(default=False, description="the server has API keys")
    keyRequired: bool = Field(default=False, description="requests without a key are refused")
    suggestions: bool = False
    filesTranslation: bool = False
    supportedFilesFormat: list[str] = []
    language: LanguageChoice


@router.post(
    "/detect",
    summary="Detect the language of a text",
    responses=_DETECTION_ERRORS,
    openapi_extra=body_of(DetectRequest),
)
async def detect(request: Request, service: ServiceDependency, caller: CallerDependency) -> list[DetectedLanguage]:
    """Return the languages that the text may be in, the most probable first."""
    body = await parse_body(request, DetectRequest, or_url=True)
    text = body.q if isinstance(body.q, str) else " ".join(body.q)
    found = service.translator.detect(text) if body.known else detect_any(text)
    return [DetectedLanguage(language=each.language, confidence=each.confidence) for each in found]


@router.get(
    "/languages",
    summary="List languages and their targets",
    responses=_UNAVAILABLE,
    response_model_exclude_none=True,
)
async def languages(service: ServiceDependency) -> list[Language]:
    """Return all source and target languages. Each is one of its own targets, for which text is copied."""
    known, downloadable = service.translator.languages, service.translator.downloadable
    return [_language(code, known[code], downloadable.get(code, ())) for code in sorted(known)]


@router.get("/frontend/settings", summary="Settings for a web page, in LibreTranslate's format", responses=_UNAVAILABLE)
async def frontend_settings(service: ServiceDependency) -> FrontendSettings:
    first = service.translator.directions[0]
    source = NamedLanguage(code=first.source, name=language_name(first.source))
    if len({direction.source for direction in service.translator.directions}) > 1:
        source = NamedLanguage(code=AUTOMATIC, name="Detect language")
    return FrontendSettings(
        charLimit=service.translator.limits.max_characters,
        frontendTimeout=_TYPING_PAUSE_MILLISECONDS,
        apiKeys=service.access.has_keys,
        keyRequired=service.access.key_required,
        suggestions=service.suggestions.is_enabled,
        filesTranslation=service.documents.is_enabled,
        supportedFilesFormat=[f".{name}" for name in FORMATS] if service.documents.is_enabled else [],
        language=LanguageChoice(
            source=source,
            target=NamedLanguage(code=first.target, name=language_name(first.target)),
        ),
    )


@cache
def language_name(code: str) -> str:
    """Return the English name of a language; its code if the name is unknown."""
    try:
        return Locale.parse(code, sep="-").english_name or code
    except (UnknownLocaleError, ValueError):
        return code


def _language(code: str, targets: Iterable[str], downloadable: Iterable[str]) -> Language:
    return Language(
        code=code, name=language_name(code), targets=sorted(targets), downloadable=sorted(downloadable) or None
    )
