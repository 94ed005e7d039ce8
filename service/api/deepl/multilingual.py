"""DeepL's routes of version 3, for glossaries of several dictionaries."""

import asyncio
import re
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from service.api.context import CallerDependency, ServiceContext, ServiceDependency, owner_of
from service.api.deepl.glossaries import (
    DictionaryBody,
    DictionaryInfo,
    Language,
    LanguagePair,
    Name,
    StoredGlossary,
    direction_of,
    parse_entries,
)
from service.api.deepl.translate import deepl_errors
from service.api.openapi import body_of
from service.api.request_body import RequestBody, parse_body
from service.errors import InvalidRequest
from service.stores.glossary_collections import Collection, Dictionary, GlossaryCollections
from service.stores.glossary_store import Description
from service.text.glossary import write_entries

router = APIRouter(prefix="/v3", tags=["as DeepL"])

_MOST_DICTIONARIES: Final = 100
_FIELD: Final = re.compile(r"dictionaries\[([0-9]{1,4})\]\.([a-z_]{1,64})")

_DICTIONARY: Final = DictionaryBody.model_json_schema()
_Dictionaries = Annotated[
    list[DictionaryBody],
    Field(max_length=_MOST_DICTIONARIES),
    WithJsonSchema({"type": "array", "items": _DICTIONARY, "maxItems": _MOST_DICTIONARIES}),
]


class _WithDictionaries(RequestBody):
    """Base of requests with dictionaries; in a form, their fields are named `dictionaries[0].source_lang`."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _from_form(cls, value: Any) -> Any:
        named = {name: _FIELD.fullmatch(name) for name in value} if isinstance(value, dict) else {}
        found: dict[int, dict[str, object]] = {}
        for name, match in named.items():
            if match is not None:
                found.setdefault(int(match[1]), {})[match[2]] = value[name]
        return value | {"dictionaries": [found[number] for number in sorted(found)]} if found else value


class CollectionBody(_WithDictionaries):
    """A request to store a glossary of several dictionaries."""

    name: Name
    dictionaries: _Dictionaries


class CollectionChange(_WithDictionaries):
    """A request to rename a glossary, or to add entries to its dictionaries."""

    name: Name | None = None
    dictionaries: _Dictionaries = Field(default=[])


class CollectionInfo(StoredGlossary):
    dictionaries: list[DictionaryInfo]


class CollectionList(BaseModel):
    glossaries: list[CollectionInfo]


class DictionaryEntries(LanguagePair):
    entries: str = Field(examples=["cat\tmatou"])
    entries_format: Literal["tsv"] = "tsv"


class EntriesList(BaseModel):
    dictionaries: list[DictionaryEntries]


@router.get("/glossaries", summary="List glossaries", responses=deepl_errors())
async def collections(service: ServiceDependency, caller: CallerDependency) -> CollectionList:
    """List the glossaries of the caller, including those of version 2."""
    found = await asyncio.to_thread(_of(service).all, owner_of(caller))
    return CollectionList(glossaries=[_info(each) for each in found])


@router.post(
    "/glossaries",
    summary="Store a glossary of several dictionaries",
    status_code=201,
    responses=deepl_errors(400, 507),
    openapi_extra=body_of(CollectionBody),
)
async def create(request: Request, service: ServiceDependency, caller: CallerDependency) -> CollectionInfo:
    service.glossaries.writable()
    body = await parse_body(request, CollectionBody)
    dictionaries = await _dictionaries(service, body.dictionaries)
    if not dictionaries:
        raise InvalidRequest("dictionaries", "there are none")
    return _info(await asyncio.to_thread(_of(service).create, body.name, dictionaries, owner_of(caller)))


@router.get("/glossaries/{glossary_id}", summary="A glossary without its entries", responses=deepl_errors(404))
async def collection(glossary_id: str, service: ServiceDependency, caller: CallerDependency) -> CollectionInfo:
    return _info(await asyncio.to_thread(_of(service).find, glossary_id, owner_of(caller)))


@router.patch(
    "/glossaries/{glossary_id}",
    summary="Rename a glossary, or add entries",
    responses=deepl_errors(400, 404, 500, 507),
    openapi_extra=body_of(CollectionChange),
)
async def change(
    request: Request, glossary_id: str, service: ServiceDependency, caller: CallerDependency
) -> CollectionInfo:
    """An entry for a known term replaces its translation."""
    service.glossaries.writable()
    body = await parse_body(request, CollectionChange)
    added = await _dictionaries(service, body.dictionaries)
    return _info(await asyncio.to_thread(_of(service).merge, glossary_id, owner_of(caller), body.name, added))


@router.delete(
    "/glossaries/{glossary_id}", summary="Delete a glossary", status_code=204, responses=deepl_errors(404, 507)
)
async def delete(glossary_id: str, service: ServiceDependency, caller: CallerDependency) -> None:
    await asyncio.to_thread(_of(service).delete, glossary_id, owner_of(caller))


@router.get(
    "/glossaries/{glossary_id}/entries", summary="The entries of a dictionary", responses=deepl_errors(400, 404, 500)
)
async def entries(
    glossary_id: str,
    service: ServiceDependency,
    caller: CallerDependency,
    source_lang: Annotated[Language, Query()],
    target_lang: Annotated[Language, Query()],
) -> EntriesList:
    direction = direction_of(service, source_lang, target_lang)
    part = await asyncio.to_thread(_of(service).part, glossary_id, owner_of(caller), direction)
    written = write_entries(await asyncio.to_thread(service.glossaries.entries_of, part))
    return EntriesList(
        dictionaries=[DictionaryEntries(source_lang=part.source, target_lang=part.target, entries=written)]
    )


@router.put(
    "/glossaries/{glossary_id}/dictionaries",
    summary="Replace a dictionary, or add one",
    responses=deepl_errors(400, 404, 507),
    openapi_extra=body_of(DictionaryBody),
)
async def replace(
    request: Request, glossary_id: str, service: ServiceDependency, caller: CallerDependency
) -> DictionaryInfo:
    service.glossaries.writable()
    [dictionary] = await _dictionaries(service, [await parse_body(request, DictionaryBody)])
    return _part(await asyncio.to_thread(_of(service).replace, glossary_id, owner_of(caller), dictionary))


@router.delete(
    "/glossaries/{glossary_id}/dictionaries",
    summary="Delete a dictionary",
    status_code=204,
    responses=deepl_errors(400, 404, 507),
)
async def delete_dictionary(
    glossary_id: str,
    service: ServiceDependency,
    caller: CallerDependency,
    source_lang: Annotated[Language, Query()],
    target_lang: Annotated[Language, Query()],
) -> None:
    """Delete a dictionary; the last one takes its glossary with it."""
    direction = direction_of(service, source_lang, target_lang)
    await asyncio.to_thread(_of(service).delete_part, glossary_id, owner_of(caller), direction)


def _of(service: ServiceContext) -> GlossaryCollections:
    return GlossaryCollections(service.glossaries)


async def _dictionaries(service: ServiceContext, bodies: list[DictionaryBody]) -> list[Dictionary]:
    """Parse dictionaries, one for each direction. Raises `InvalidRequest`."""
    found: list[Dictionary] = []
    for each in bodies:
        direction = direction_of(service, each.source_lang, each.target_lang)
        if any(other.direction == direction for other in found):
            raise InvalidRequest("dictionaries", f"there are several from {direction.source} into {direction.target}")
        found.append(Dictionary(direction, await parse_entries(each)))
    return found


def _info(known: Collection) -> CollectionInfo:
    return CollectionInfo(
        glossary_id=known.id,
        name=known.name,
        creation_time=known.created_at.isoformat(timespec="microseconds"),
        dictionaries=[_part(each) for each in known.parts],
    )


def _part(known: Description) -> DictionaryInfo:
    return DictionaryInfo(source_lang=known.source, target_lang=known.target, entry_count=known.entry_count)
