"""DeepL's routes for texts, languages and usage, and the names and errors that all its routes share."""

from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from service.api.batches import Wanted, translated
from service.api.context import CallerDependency, ServiceDependency
from service.api.languages import language_name
from service.api.openapi import CALLER_ERRORS, Responses, body_of, errors_of
from service.api.request_body import RequestBody, Texts, form_fields, parse_body
from service.api.translate import stored_glossary
from service.errors import InvalidRequest
from service.text.splitter import Splitting
from service.text.xml import XmlTags, find_xml_error
from service.translation.options import Beam, TranslationOptions
from service.translation.translator import FieldNames

router = APIRouter(prefix="/v2", tags=["as DeepL"])

NAMES: Final = FieldNames(
    text="text",
    source="source_lang",
    target="target_lang",
    automatic=(),
    spelled=str.upper,
)
_FLAGS: Final = {"0": False, "1": True, "false": False, "true": True}
_MOST_TAGS: Final = 1000
_QUALITY_BEAM: Final = 4
"""Beam width of the model types that prefer quality, within the server's limit."""
_SPLITTINGS: Final[dict[str, Splitting]] = {"0": "none", "1": "lines", "nonewlines": "sentences"}
# DeepL lists English and Portuguese only as variants; a model that knows just the language serves both.
_VARIANTS: Final = {"EN": ("EN-GB", "EN-US"), "PT": ("PT-BR", "PT-PT")}
_UNLIMITED: Final = 1_000_000_000_000
"""The limit that DeepL reports for unlimited accounts."""


class DeepLError(BaseModel):
    message: str = Field(examples=["target_lang: field required"])


def deepl_errors(*statuses: int) -> Responses:
    """Describe the errors of a route: the common ones, and `statuses`."""
    own = {403: "no API key where one is required, or a wrong one"}
    return errors_of(DeepLError, *CALLER_ERRORS, *statuses, own=own)


def _flag(value: object) -> object:
    """Accept DeepL's 0 and 1, and JSON's true and false."""
    if str(value).lower() not in _FLAGS:
        raise PydanticCustomError("flag_type", "must be 0 or 1, or true or false")
    return _FLAGS[str(value).lower()]


def _tag_names(value: object) -> object:
    """Accept names separated by commas, or an array of such strings."""
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise PydanticCustomError("tags_type", "must be names of tags, separated by commas or in an array")
    names = [name.strip() for each in given for name in each.split(",", _MOST_TAGS) if name.strip()]
    if len(names) > _MOST_TAGS:
        raise PydanticCustomError("too_many_tags", f"more than {_MOST_TAGS} names")
    return frozenset(names)


DeepLFlag = Annotated[
    bool, BeforeValidator(_flag), WithJsonSchema({"anyOf": [{"type": "boolean"}, {"enum": ["0", "1", 0, 1]}]})
]
TagNames = Annotated[
    frozenset[str],
    BeforeValidator(_tag_names),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Split = Annotated[
    Literal["0", "1", "nonewlines"] | None,
    # DeepL's 0 and 1 are strings; some clients send numbers, or false and true.
    BeforeValidator(lambda value: str(int(value)) if isinstance(value, int) else value),
    WithJsonSchema({"enum": [*_SPLITTINGS, 0, 1, False, True, None]}),
]


class DeepLRequest(RequestBody):
    """A request of DeepL. Unknown fields are ignored, as DeepL does; unavailable options are refused."""

    model_config = ConfigDict(extra="ignore")

    text: Texts = Field(description="texts to translate", examples=[["I see a cat."]])
    target_lang: str = Field(min_length=2, max_length=16, examples=["FR"])
    source_lang: str | None = Field(default=None, max_length=16, examples=["EN"])
    formality: Literal["default", "more", "less", "prefer_more", "prefer_less"] | None = Field(
        default=None, description="more and less are not available; prefer_more and prefer_less have no effect"
    )
    tag_handling: Literal["html", "xml"] | None = None
    tag_handling_version: Literal["v1", "v2"] = Field(
        default="v1", description="v2 refuses XML that is not well-formed"
    )
    outline_detection: DeepLFlag = Field(default=True, description="only with tag_handling xml, as the two after it")
    splitting_tags: TagNames = frozenset()
    non_splitting_tags: TagNames = frozenset()
    ignore_tags: TagNames = Field(default=frozenset(), description="elements that are copied")
    split_sentences: Split = Field(
        default=None,
        description="0: the text is one sentence; nonewlines, the default of html: line ends are spaces; 1: they split",
    )
    preserve_formatting: DeepLFlag | None = Field(default=None, description="formatting is always preserved")
    model_type: Literal["quality_optimized", "prefer_quality_optimized", "latency_optimized"] | None = Field(
        default=None, description=f"the two for quality use beam search, of width {_QUALITY_BEAM} if the server allows"
    )
    context: str | None = Field(default=None, description="accepted, and without effect")
    show_billed_characters: DeepLFlag = Field(default=True, description="they are always shown")
    glossary_id: str | None = Field(default=None, description="only with source_lang")
    glossary_ids: Texts | None = Field(
        default=None, description="several; of two translations of a term the first counts"
    )
    style_id: str | None = Field(default=None, description="not available")
    translation_memory_id: str | None = Field(default=None, description="not available")
    custom_instructions: Texts | None = Field(default=None, description="not available")

    def check(self) -> None:
        """Raise `InvalidRequest` for unavailable options, and for options that exclude one another."""
        for field in ("style_id", "translation_memory_id", "custom_instructions"):
            if getattr(self, field):
                raise InvalidRequest(field, "is not available")
        if self.formality in ("more", "less"):
            raise InvalidRequest("formality", "is not available for any language; prefer_more and prefer_less are")
        if self.glossaries() and not self.source_lang:
            field = "glossary_id" if self.glossary_id else "glossary_ids"
            raise InvalidRequest("source_lang", f"must be given with {field}")
        if self.glossary_id and self.glossary_ids:
            raise InvalidRequest("glossary_ids", "the request has a glossary_id already")
        self._check_tags()

    def _check_tags(self) -> None:
        if self.tag_handling != "xml":
            for field in ("splitting_tags", "non_splitting_tags", "outline_detection"):
                if field in self.model_fields_set and getattr(self, field) not in (True, frozenset()):
                    raise InvalidRequest(field, "is available only with tag_handling xml")
        if self.tag_handling == "xml" and self.tag_handling_version == "v2":
            for text in self.texts():
                if error := find_xml_error(text):
                    raise InvalidRequest("text", f"is not well-formed XML: {error}")

    def texts(self) -> list[str]:
        return [self.text] if isinstance(self.text, str) else self.text

    def glossaries(self) -> list[str]:
        """Return the ids or names of the glossaries, the most important first."""
        several = self.glossary_ids or []
        return [self.glossary_id] if self.glossary_id else [several] if isinstance(several, str) else several

    def options(self, max_beam_size: int) -> TranslationOptions:
        """Build the options of the translation, without its glossary."""
        is_for_quality = self.model_type in ("quality_optimized", "prefer_quality_optimized")
        xml = XmlTags(self.ignore_tags, self.splitting_tags, self.non_splitting_tags, self.outline_detection)
        return TranslationOptions(
            beam=Beam(min(_QUALITY_BEAM, max_beam_size) if is_for_quality else 1),
            is_html=self.tag_handling == "html",
            ignored_elements=frozenset(map(str.lower, self.ignore_tags))
            if self.tag_handling == "html"
            else frozenset(),
            xml=xml if self.tag_handling == "xml" else None,
            splitting=None if self.split_sentences is None else _SPLITTINGS[self.split_sentences],
        )

    def model_type_used(self) -> str | None:
        """Return the model type that was used, if one was requested."""
        if self.model_type is None:
            return None
        return "latency_optimized" if self.model_type == "latency_optimized" else "quality_optimized"


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
