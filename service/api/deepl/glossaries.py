"""The routes of DeepL for stored glossaries."""

import asyncio
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from model.checkpoint_config import Direction
from service.api.context import CallerDependency, ServiceContext, ServiceDependency, owner_of
from service.api.deepl.translate import NAMES, deepl_errors
from service.api.openapi import body_of
from service.api.request_body import RequestBody, parse_body
from service.errors import InvalidRequest
from service.stores.glossary_store import Description
from service.text.glossary import EntriesError, read_entries, write_entries

router = APIRouter(prefix="/v2", tags=["as DeepL"])

_TSV: Final = "text/tab-separated-values"


Name = Annotated[str, Field(min_length=1, max_length=200, examples=["animals"])]
Language = Annotated[str, Field(min_length=2, max_length=16)]


class DictionaryBody(RequestBody):
    """The entries for one direction. Unknown fields are ignored, as DeepL does."""

    model_config = ConfigDict(extra="ignore")

    source_lang: Language = Field(examples=["EN"])
    target_lang: Language = Field(examples=["FR"])
    entries: str = Field(description="a term and its translation on each line", examples=["cat\tmatou"])
    entries_format: Literal["tsv", "csv"]


class GlossaryRequest(DictionaryBody):
    """A request of DeepL to store a glossary."""

    name: Name


class LanguagePair(BaseModel):
    source_lang: str = Field(description="language code, as the model has it", examples=["en"])
    target_lang: str = Field(description="language code, as the model has it", examples=["fr"])


class DictionaryInfo(LanguagePair):
    entry_count: int = Field(examples=[1])


class StoredGlossary(BaseModel):
    glossary_id: str = Field(examples=["2b7c6b7e-0e5c-4d41-9a7c-5f2f0c3d6c11"])
    name: str = Field(examples=["animals"])
    creation_time: str = Field(description="ISO 8601, in UTC", examples=["2026-01-31T12:00:00.000000+00:00"])


class GlossaryInfo(StoredGlossary, DictionaryInfo):
    ready: bool = True


class GlossaryList(BaseModel):
    glossaries: list[GlossaryInfo]


class LanguagePairs(BaseModel):
    supported_languages: list[LanguagePair]


@router.get("/glossary-language-pairs", summary="Languages of glossaries", responses=deepl_errors())
async def language_pairs(service: ServiceDependency, caller: CallerDependency) -> LanguagePairs:
    """Return all directions of the models; an empty list if the server does not store glossaries."""
    known = service.translator.directions if service.glossaries.can_store else []
    return LanguagePairs(
        supported_languages=[LanguagePair(source_lang=each.source, target_lang=each.target) for each in known]
    )


@router.post(
    "/glossaries",
    summary="Store a glossary",
    status_code=201,
    responses=deepl_errors(400, 507),
    openapi_extra=body_of(GlossaryRequest),
)
async def create(request: Request, service: ServiceDependency, caller: CallerDependency) -> GlossaryInfo:
    """Store a glossary. It never changes, and only callers with the same key see it."""
    service.glossaries.writable()
    body = await parse_body(request, GlossaryRequest)
    direction = direction_of(service, body.source_lang, body.target_lang)
    entries = await parse_entries(body)
    return _info(await asyncio.to_thread(service.glossaries.add, body.name, direction, entries, owner_of(caller)))


@router.get("/glossaries", summary="List stored glossaries", responses=deepl_errors())
async def glossaries(service: ServiceDependency, caller: CallerDependency) -> GlossaryList:
    found = await asyncio.to_thread(service.glossaries.all, owner_of(caller))
    return GlossaryList(glossaries=[_info(each) for each in found])


@router.get("/glossaries/{glossary_id}", summary="A glossary without its entries", responses=deepl_errors(404))
async def glossary(glossary_id: str, service: ServiceDependency, caller: CallerDependency) -> GlossaryInfo:
    return _info(await asyncio.to_thread(service.glossaries.find, glossary_id, owner_of(caller)))


@router.get(
    "/glossaries/{glossary_id}/entries",
    summary="The entries of a glossary",
    response_class=Response,
    responses={
        **deepl_errors(404, 500),
        200: {"content": {_TSV: {"schema": {"type": "string"}}}, "description": "as TSV"},
    },
)
async def entries(glossary_id: str, service: ServiceDependency, caller: CallerDependency) -> Response:
    found = await asyncio.to_thread(service.glossaries.entries, glossary_id, owner_of(caller))
    return Response(write_entries(found), media_type=_TSV)


@router.delete(
    "/glossaries/{glossary_id}", summary="Delete a glossary", status_code=204, responses=deepl_errors(404, 507)
)
async def delete(glossary_id: str, service: ServiceDependency, caller: CallerDependency) -> None:
    await asyncio.to_thread(service.glossaries.delete, glossary_id, owner_of(caller))


def direction_of(service: ServiceContext, source: str, target: str) -> Direction:
    """Return the direction of a dictionary. Raises `InvalidRequest`."""
    found, into = service.translator.direction(source, target, NAMES)
    if found == into:
        raise InvalidRequest("target_lang", "must be another language than source_lang")
    return Direction(source=found, target=into)


async def parse_entries(body: DictionaryBody) -> dict[str, str]:
    """Parse entries, at least one. Raises `InvalidRequest`."""
    try:
        # Two megabytes may be a million lines.
        entries = await asyncio.to_thread(read_entries, body.entries, body.entries_format)
    except EntriesError as error:
        raise InvalidRequest("entries", str(error)) from None
    if not entries:
        raise InvalidRequest("entries", "there are none")
    return entries


def _info(known: Description) -> GlossaryInfo:
    return GlossaryInfo(
        glossary_id=known.id,
        name=known.name,
        source_lang=known.source,
        target_lang=known.target,
        creation_time=known.created_at.isoformat(timespec="microseconds"),
        entry_count=known.entry_count,
    )
