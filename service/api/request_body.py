"""The parsing of request bodies: JSON, and URL-encoded and multipart forms."""

import asyncio
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import ValidationError
from python_multipart.multipart import parse_options_header
from starlette.exceptions import HTTPException

from service.api.context import service_of
from service.api.error_handlers import invalid_request
from service.api.field_types import RequestBody, has_more_values
from service.errors import InvalidRequest, TooLong
from service.text.glossary import MAX_ENTRIES

M = TypeVar("M", bound=RequestBody)

JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"
_OTHER_FIELDS: Final = 100
"""Limit for the fields of a request besides texts and glossary; fewer exist."""
_MOST_PROBLEMS: Final = 100
"""Limit for the problems that are collected; a response describes a few of them."""
_LONGEST_NAME: Final = 64
_LONGEST_ENCODING: Final = 20
_LARGE_FORM_BYTES: Final = 65_536
_OTHER_CHARACTERS: Final = 8_192
"""Limit for the characters of a form besides its text and long fields."""
_LONG_FIELDS: Final = (b"glossary", b"context")
"""A glossary, and the context that DeepL's clients send."""
_LONG_CHARACTERS: Final = 262_144
_CONTINUATIONS: Final = ("%8", "%9", "%A", "%B", "%a", "%b")
"""Beginnings of escaped bytes that continue a character of UTF-8."""
_FORMS: Final = ThreadPoolExecutor(1, "forms")
_NULL: Final = {"type": "null"}
_ANNOTATIONS: Final = frozenset({"title", "description", "default", "examples"})
_UTF_8: Final = frozenset({b"utf-8", b"utf8"})


def body_of(model: type[RequestBody]) -> dict[str, Any]:
    """Describe, for OpenAPI, the body of a route that calls `parse_body`."""
    json, form = _with_nulls(model.model_json_schema()), _as_form(model.model_json_schema())
    content = {JSON: {"schema": json}, FORM: {"schema": form}, MULTIPART: {"schema": form}}
    return {"requestBody": {"required": True, "content": content}}


def _with_nulls(schema: dict[str, Any]) -> dict[str, Any]:
    """Allow null for each field that may be absent, as `RequestBody` does."""
    for name, field in schema["properties"].items():
        if name not in schema.get("required", ()):
            own = {key: field.pop(key) for key in [*field] if key not in _ANNOTATIONS}
            choices = own["anyOf"] if own.keys() == {"anyOf"} else [own]
            field["anyOf"] = [*(each for each in choices if each != _NULL), _NULL]
    return schema


def _as_form(schema: dict[str, Any]) -> dict[str, Any]:
    """Convert the schema of a JSON body to the schema of a form, in which fields are absent instead of null."""
    for field in schema["properties"].values():
        if "anyOf" in field:
            choices = [choice for choice in field.pop("anyOf") if choice != _NULL]
            field |= choices[0] if len(choices) == 1 else {"anyOf": choices}
    return schema


async def parse_body(request: Request, model: type[M], *, or_url: bool = False) -> M:
    """Parse the body as JSON (strict types) or as a form. Raises `InvalidRequest` and `TooLong`.

    With `or_url`, the URL may hold some fields of a form, or all fields if there is no body. Beside JSON, fields in the
    URL are ignored.
    """
    await check_declared_type(request)
    json = await request.body() if media_type(request) == JSON else None
    if json and has_more_values(json, most := MAX_ENTRIES + await _max_fields(request)):
        raise TooLong("body", f"more than {most} values: texts, entries of a glossary and other fields")
    in_url = await form_fields(request, request.scope["query_string"], "URL") if or_url and not json else {}
    if json == b"" and not in_url:
        raise InvalidRequest("body", "is empty")
    try:
        if json is not None and not in_url:
            return model.model_validate_json(json, strict=True)
        form = {} if json is not None else await read_form(request)
        return model.model_validate(form | in_url)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)[:_MOST_PROBLEMS]
    # Outside of `except`: an exception keeps its context, and Pydantic's error holds the whole body.
    raise invalid_request(problems, fields=model.model_fields)


def media_type(request: Request) -> str:
    """Return the declared media type; JSON by default."""
    return request.headers.get("content-type", JSON).partition(";")[0].strip().lower()


async def check_declared_type(request: Request) -> None:
    """Raise `InvalidRequest` for a compressed body, and for JSON that is declared as a form.

    curl's `-d` declares a form unless a header is given. Forms never begin with a brace: encoders escape it.
    """
    if (encoding := request.headers.get("content-encoding", "")).lower() not in ("", "identity"):
        problem = f"{encoding[:_LONGEST_ENCODING]} is not accepted: send the body uncompressed"
        raise InvalidRequest("Content-Encoding", problem)
    if media_type(request) == FORM and (await request.body()).lstrip()[:1] == b"{":
        raise InvalidRequest("Content-Type", f"the body is JSON, but it was sent as {FORM}: send Content-Type: {JSON}")


async def read_form(request: Request) -> dict[str, object]:
    """Parse the fields of a form; a repeated field becomes an array. Raises `InvalidRequest`."""
    kind = media_type(request)
    if kind == FORM:
        return await form_fields(request, await request.body())
    if kind == MULTIPART:
        return _collected(await _multipart(request))
    raise InvalidRequest("Content-Type", f"must be {JSON}, {FORM} or {MULTIPART}")


async def form_fields(request: Request, body: bytes, name: str = "body") -> dict[str, object]:
    """Parse the fields of a URL-encoded form. Raises `InvalidRequest` and `TooLong` with `name` as their field."""
    most = await _max_fields(request)
    characters = (await service_of(request)).translator.limits.max_characters
    others = _OTHER_CHARACTERS + (_LONG_CHARACTERS if any(each in body for each in _LONG_FIELDS) else 0)
    if body.count(b"&") >= most:
        raise InvalidRequest(name, f"has more than {most} fields")
    try:
        form = body.decode()
        if len(form) - 2 * form.count("%") - sum(map(form.count, _CONTINUATIONS)) > characters + others:
            raise TooLong(name, f"the form is larger than one with {characters} characters can be")
        if len(body) > _LARGE_FORM_BYTES:
            # Takes up to a tenth of a second. In one thread: more threads would take more turns from the event loop.
            pairs = await asyncio.get_running_loop().run_in_executor(_FORMS, _parse_qsl, form)
        else:
            pairs = _parse_qsl(form)
        return _collected(pairs)
    except UnicodeDecodeError:
        raise InvalidRequest(name, "is not valid UTF-8") from None


def _parse_qsl(form: str) -> list[tuple[str, str]]:
    return parse_qsl(form, keep_blank_values=True, errors="strict")


async def check_url(request: Request) -> None:
    """Raise `InvalidRequest` for a URL whose fields are not UTF-8; a dependency of routes that read them.

    Starlette would replace the wrong bytes, and the route would translate a changed text.
    """
    await form_fields(request, request.scope["query_string"], "URL")


def check_charset(request: Request) -> None:
    """Raise `InvalidRequest` for a multipart form in another encoding than UTF-8.

    Starlette would decode with any codec that a client names: some take minutes, raise, or return lone surrogates.
    """
    _, parameters = parse_options_header(request.headers["content-type"])
    if parameters.get(b"charset", b"utf-8").lower() not in _UTF_8:
        raise InvalidRequest("Content-Type", "charset must be UTF-8")


async def _multipart(request: Request) -> list[tuple[str, str]]:
    check_charset(request)
    await request.body()  # the whole body is limited already, so parts need no limit
    try:
        most = await _max_fields(request)
        form = await request.form(max_files=most, max_fields=most, max_part_size=sys.maxsize)
    except HTTPException as error:  # raised by Starlette for a malformed form
        raise InvalidRequest("body", error.detail) from None
    texts = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
    file = next((name for name, value in form.multi_items() if not isinstance(value, str)), None)
    if file is not None:
        await form.close()
        raise InvalidRequest(file[:_LONGEST_NAME] or "body", "must be text, not a file")
    return texts


async def _max_fields(request: Request) -> int:
    return (await service_of(request)).translator.limits.max_texts + _OTHER_FIELDS


def _collected(pairs: Iterable[tuple[str, str]]) -> dict[str, object]:
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}
