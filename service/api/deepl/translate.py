"""DeepL's routes for texts, languages and usage."""

from dataclasses import replace
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from service.api.context import CallerDependency, ServiceDependency
from service.api.deepl.common import NAMES, deepl_errors
from service.api.deepl.fields import DeepLRequest
from service.api.languages import language_name
from service.api.openapi import body_of
from service.api.request_body import form_fields, parse_body
from service.api.translate import Wanted, stored_glossary, translated
from service.errors import InvalidRequest

router = APIRouter(prefix="/v2", tags=["as DeepL"])

# DeepL lists English and Portuguese only as variants; a model that knows just the language serves both.
_VARIANTS: Final = {"EN": ("EN-GB", "EN-US"), "PT": ("PT-BR", "PT-PT")}
_UNLIMITED: Final = 1_000_000_000_000
"""The limit that DeepL reports for unlimited accounts."""


class DeepLTranslation(BaseModel):
    detected_source_language: str = Field(examples=["EN"])
    text: str = Field(examples=["Je vois un chat."])
    billed_characters: int = Field(examples=[11])
    model_type_used: str | None = Field(default=None, description="if the request has a model_type")


class DeepLTranslations(BaseModel):
    translations: list[DeepLTranslation]


class DeepLLanguage(BaseModel):
    language: str = Field(examples=["FR"])
    name: str = Field(examples=["French"])
    supports_formality: bool | None = Field(default=None, description="for target languages only")


class DeepLUsage(BaseModel):
    """Characters translated with the key in this month (UTC), and its limit. Without keys: characters of all callers
    since the server started, and an unreachable limit."""

    character_count: int = Field(examples=[30_000])
    character_limit: int = Field(examples=[500_000])


_LANGUAGE_ERRORS: Final = deepl_errors(400)


_TRANSLATE: Final[dict[str, Any]] = {
    "summary": "Translate texts",
    "responses": deepl_errors(400, 404, 456, 500, 504),
    "response_model_exclude_none": True,
}


@router.get("/translate", **_TRANSLATE)
@router.post("/translate", **_TRANSLATE, openapi_extra=body_of(DeepLRequest))
async def translate(request: Request, service: ServiceDependency, caller: CallerDependency) -> DeepLTranslations:
    """Translate texts. With GET, as old clients send it, the fields are in the URL."""
    body = await parse_body(request, DeepLRequest, or_url=request.method == "GET")
    service.translator.check_length(body.texts(), NAMES.text)  # before they are parsed
    body.check()
    requested_source = body.source_lang or None
    await service.check_open()
    with service.choosing_model():
        source, target = service.translator.direction(requested_source, body.target_lang, NAMES)
    texts = body.texts()
    glossary = await stored_glossary(service, caller, body.glossaries(), source, target)
    made = body.options(service.translator.limits.max_beam_size)
    options = replace(made, glossary=glossary, caller=caller.identity)
    done = await translated(request, service, caller, Wanted(texts, requested_source, target, options), NAMES)
    return DeepLTranslations(
        translations=[
            DeepLTranslation(
                detected_source_language=each.upper(),
                text=translation,
                billed_characters=len(text),
                model_type_used=body.model_type_used(),
            )
            for each, text, translation in zip(done.sources, texts, done.texts, strict=True)
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
