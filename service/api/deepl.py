"""The routes of DeepL, for clients that are written for it."""

from typing import Final, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from service.api.authentication import CallerDependency
from service.api.dependencies import ServiceDependency
from service.api.field_types import RequestBody, Texts
from service.api.openapi import CALLER_ERRORS, Responses, errors_of
from service.api.request_body import body_of, form_fields, parse_body
from service.api.translate import language_name, stored_glossary, until_finished
from service.errors import InvalidRequest
from service.translation.options import TranslationOptions
from service.translation.translator import FieldNames

router = APIRouter(prefix="/v2", tags=["as DeepL"])

# DeepL lists English and Portuguese only as variants; a model that knows just the language serves both.
_VARIANTS: Final = {"EN": ("EN-GB", "EN-US"), "PT": ("PT-BR", "PT-PT")}
NAMES: Final = FieldNames(
    text="text",
    source="source_lang",
    target="target_lang",
    automatic=(),
    spelled=str.upper,
)
_UNLIMITED: Final = 1_000_000_000_000
"""The limit that DeepL reports if there is none."""


class DeepLError(BaseModel):
    message: str = Field(examples=["target_lang: field required"])


class DeepLRequest(RequestBody):
    """A request of DeepL. Unknown fields are ignored, as DeepL does; options that no model here has are refused."""

    model_config = ConfigDict(extra="ignore")

    text: Texts = Field(description="texts to translate", examples=[["I am a cat."]])
    target_lang: str = Field(min_length=2, max_length=16, examples=["FR"])
    source_lang: str | None = Field(default=None, max_length=16, examples=["EN"])
    formality: Literal["default", "more", "less", "prefer_more", "prefer_less"] = "default"
    tag_handling: str | None = Field(default=None, description="html; xml is not available")
    glossary_id: str | None = Field(default=None, description="only with source_lang")
    style_id: str | None = Field(default=None, description="not available")
    translation_memory_id: str | None = Field(default=None, description="not available")
    custom_instructions: Texts | None = Field(default=None, description="not available")

    def check(self) -> None:
        """Raise `InvalidRequest` for options that no model here has."""
        if self.tag_handling not in (None, "html"):
            raise InvalidRequest("tag_handling", "must be html")
        for field in ("style_id", "translation_memory_id", "custom_instructions"):
            if getattr(self, field):
                raise InvalidRequest(field, "is not available")
        if self.glossary_id and not self.source_lang:
            raise InvalidRequest("source_lang", "must be given with glossary_id")
        if self.formality in ("more", "less"):
            raise InvalidRequest("formality", "is not available for any language; prefer_more and prefer_less are")

    def texts(self) -> list[str]:
        return [self.text] if isinstance(self.text, str) else self.text


class DeepLTranslation(BaseModel):
    detected_source_language: str = Field(examples=["EN"])
    text: str = Field(examples=["Je suis un chat."])
    billed_characters: int = Field(examples=[11])


class DeepLTranslations(BaseModel):
    translations: list[DeepLTranslation]


class DeepLLanguage(BaseModel):
    language: str = Field(examples=["FR"])
    name: str = Field(examples=["French"])
    supports_formality: bool | None = Field(default=None, description="of target languages only")


class DeepLUsage(BaseModel):
    """Characters translated with the key in this month (UTC), and its limit. Without keys: characters of all callers
    since the server started, and a limit that nobody reaches."""

    character_count: int = Field(examples=[30_000])
    character_limit: int = Field(examples=[500_000])


def deepl_errors(*statuses: int) -> Responses:
    """Describe the errors of a route: those of all routes, and `statuses`."""
    own = {403: "no API key where one is required, or a wrong one"}
    return errors_of(DeepLError, *CALLER_ERRORS, *statuses, own=own)


_LANGUAGE_ERRORS: Final = deepl_errors(400)


@router.post(
    "/translate",
    summary="Translate texts",
    responses=deepl_errors(400, 404, 456, 500, 504),
    openapi_extra=body_of(DeepLRequest),
)
async def translate(request: Request, service: ServiceDependency, caller: CallerDependency) -> DeepLTranslations:
    """Translate texts. They are always split into sentences and keep their white space: `split_sentences`,
    `preserve_formatting`, `context` and `model_type` have no effect."""
    body = await parse_body(request, DeepLRequest)
    body.check()
    requested_source = body.source_lang or None
    await service.check_open()
    with service.choosing_model():
        source, target = service.translator.direction(requested_source, body.target_lang, NAMES)
    texts = body.texts()
    glossary = await stored_glossary(service, caller, body.glossary_id, source, target)
    options = TranslationOptions(is_html=body.tag_handling == "html", glossary=glossary, caller=caller.identity)
    async with service.access.charged(caller, sum(map(len, texts)), NAMES.text):
        translation = service.translator.start(texts, requested_source, target, options, NAMES)
        finished = await until_finished(request, translation)
    sources = [each.language for each in finished.detected] or [source] * len(texts)
    return DeepLTranslations(
        translations=[
            DeepLTranslation(detected_source_language=each.upper(), text=translated.text, billed_characters=len(text))
            for each, text, translated in zip(sources, texts, finished.translations, strict=True)
        ]
    )


@router.get(
    "/languages", summary="Source or target languages", responses=_LANGUAGE_ERRORS, response_model_exclude_none=True
)
@router.post(
    "/languages", summary="Source or target languages", responses=_LANGUAGE_ERRORS, response_model_exclude_none=True
)
async def languages(
    request: Request,
    service: ServiceDependency,
    caller: CallerDependency,
    type: Literal["source", "target"] | None = None,
) -> list[DeepLLanguage]:
    """Return source or target languages. `type` may also be in a form, even with GET, as DeepL's client sends it."""
    kind = type or (await form_fields(request, await request.body())).get("type", "source")
    if kind not in ("source", "target"):
        raise InvalidRequest("type", "must be source or target")
    directions = service.translator.directions
    if kind == "source":
        return [_language(code) for code in sorted({each.source for each in directions})]
    codes = sorted({each.target for each in directions})
    return [
        DeepLLanguage(language=variant, name=language_name(variant), supports_formality=False)
        for code in codes
        for variant in _VARIANTS.get(code.upper(), (code.upper(),))
    ]


@router.get("/usage", summary="Characters translated", responses=deepl_errors())
@router.post("/usage", summary="Characters translated", responses=deepl_errors())
async def usage(service: ServiceDependency, caller: CallerDependency) -> DeepLUsage:
    limit = caller.limits.characters_per_month
    return DeepLUsage(
        character_count=await service.access.characters_used(caller),
        character_limit=_UNLIMITED if limit is None else limit,
    )


def _language(code: str) -> DeepLLanguage:
    return DeepLLanguage(language=code.upper(), name=language_name(code))
