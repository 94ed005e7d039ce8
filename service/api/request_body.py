"""The bodies of requests: the types of their fields with errors for people, and the parsing of JSON and forms."""

import asyncio
import re
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError, from_json
from python_multipart.multipart import parse_options_header
from starlette.exceptions import HTTPException

from service.api.error_handlers import invalid_request
from service.errors import InvalidRequest, TooLong
from service.text.glossary import LONGEST_TERM, MAX_ENTRIES, VISIBLE
from service.translation.options import MAX_BEAM_SIZE, Limits

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
_UTF_8: Final = frozenset({b"utf-8", b"utf8"})
_STRING: Final = re.compile(rb'"[^"]*"?')


class RequestBody(BaseModel):
    """Base of all request bodies. Nothing of a body stays in memory after its request.

    Pydantic's cache would keep 16,384 names and short values, and the memory pages around them.
    """

    model_config = ConfigDict(cache_strings="none")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        """Treat null as an absent field: clients in C# and Java send it for each default."""
        return {name: each for name, each in value.items() if each is not None} if isinstance(value, dict) else value


class StrictBody(RequestBody):
    """Base of request bodies that refuse unknown fields and name them, but not a megabyte of them."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > (most := 2 * len(cls.model_fields)):
            raise PydanticCustomError("too_many_fields", f"more than {most} fields")
        return value


def has_more_values(json: bytes, most: int) -> bool:
    """Return True if JSON has more than `most` fields and elements on all levels; an empty array or object is two.

    Values are counted in the text: as objects, two megabytes of small values would take fifty megabytes, and block all
    other requests while they are built.
    """
    if _count(json) <= most:
        return False
    # Characters in strings do not count. Escaped quotes do not end strings, nor do escaped backslashes escape.
    bare = json.replace(rb"\\", b"").replace(rb"\"", b"")
    # A field has at most two strings: its name and its value.
    return bare.count(b'"') > 4 * most or _count(_STRING.sub(b"", bare)) > most


def _count(json: bytes) -> int:
    """Count values: the first of a container follows its bracket, every other follows a comma."""
    return json.count(b",") + json.count(b"[") + json.count(b"{")


def _string_or_strings(value: object) -> object:
    """Report one problem; Pydantic's union would report one for each alternative and element."""
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(each, str) for each in value)):
        return value
    raise PydanticCustomError("text_type", "must be a string or an array of strings")


def _not_blank(value: Any, validate: Any) -> Any:
    """Replace Pydantic's message about a pattern by words."""
    try:
        return validate(value)
    except ValidationError as error:
        if error.errors()[0]["type"] != "string_pattern_mismatch":
            raise
        raise PydanticCustomError("blank", "must not be blank") from None


def _true_or_false(value: object) -> object:
    """Accept `true` and `false` in forms and URLs; Pydantic would accept `1`, `on` and `y` too."""
    if isinstance(value, str) and value not in ("true", "false"):
        raise PydanticCustomError("flag_type", "must be true or false")
    return value


Flag = Annotated[bool, BeforeValidator(_true_or_false)]


def _from_json(value: Any) -> Any:
    """Decode JSON in a string, as forms and URLs send objects."""
    if not isinstance(value, str):
        return value
    if has_more_values(value.encode(errors="replace"), MAX_ENTRIES):
        raise PydanticCustomError("too_long", f"more than {MAX_ENTRIES} entries")
    try:
        return from_json(value, cache_strings="none")
    except ValueError:
        raise PydanticCustomError("json_type", "must be an object, in JSON") from None


def _not_too_many(value: Any) -> Any:
    """Count entries first: Pydantic would validate all, and keep a problem for each wrong one."""
    if isinstance(value, dict) and len(value) > MAX_ENTRIES:
        raise PydanticCustomError("too_long", f"more than {MAX_ENTRIES} entries")
    return value


def _number(value: object) -> object:
    """Accept a number in a string, as LibreTranslate's clients may send it."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else value


Texts = Annotated[str | list[str], BeforeValidator(_string_or_strings)]
Word = Annotated[str, Field(pattern=VISIBLE, max_length=LONGEST_TERM), WrapValidator(_not_blank)]
Entries = Annotated[
    dict[Word, Word], BeforeValidator(_not_too_many), BeforeValidator(_from_json), Field(max_length=MAX_ENTRIES)
]
LanguageCode = Annotated[str, Field(min_length=1, max_length=16)]
ApiKey = Annotated[
    str | None,
    Field(
        description="required by servers with keys; may be sent in `Authorization` instead", examples=["dragoman-..."]
    ),
]
OtherApiKey = Annotated[str | None, Field(description="another spelling of api_key, which clients of npm send")]
Secret = Annotated[str | None, Field(description="ignored; LibreTranslate's own page sends it")]
Alternatives = Annotated[
    int,
    Field(
        ge=0,
        lt=MAX_BEAM_SIZE,
        description="number of alternative translations of each text, by beam search",
        examples=[2],
    ),
    BeforeValidator(_number),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "exclusiveMaximum": MAX_BEAM_SIZE},
                {"type": "string", "pattern": "^[0-9]+$"},
            ]
        }
    ),
]


M = TypeVar("M", bound=RequestBody)


async def parse_body(request: Request, model: type[M], *, or_url: bool = False) -> M:
    """Parse the body as JSON (strict types) or as a form. Raises `InvalidRequest` and `TooLong`.

    With `or_url`, the URL may hold some fields of a form, or all fields if there is no body. Beside JSON, fields in the
    URL are ignored.
    """
    await check_declared_type(request)
    json = await request.body() if media_type(request) == JSON else None
    if json and has_more_values(json, most := MAX_ENTRIES + _max_fields(request)):
        raise TooLong("body", f"more than {most} values: texts, entries of a glossary and other fields")
    in_url = await form_fields(request, request.scope["query_string"], "URL") if or_url and not json else {}
    if json == b"" and not in_url:
        raise InvalidRequest("body", "is empty")
    if json is not None and not in_url:
        return validated(model, lambda: model.model_validate_json(json, strict=True))
    form = {} if json is not None else await read_form(request)
    return validated(model, lambda: model.model_validate(form | in_url))


def validated(model: type[M], validate: Callable[[], M], nameless: str = "body") -> M:
    """Return what `validate` makes of a request's fields. Raises `InvalidRequest`, with `nameless` for the whole."""
    try:
        return validate()
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)[:_MOST_PROBLEMS]
    # Outside of `except`: an exception keeps its context, and Pydantic's error holds the whole body.
    raise invalid_request(problems, nameless, model.model_fields)


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
        return collected(await _multipart(request))
    raise InvalidRequest("Content-Type", f"must be {JSON}, {FORM} or {MULTIPART}")


async def form_fields(request: Request, body: bytes, name: str = "body") -> dict[str, object]:
    """Parse the fields of a URL-encoded form. Raises `InvalidRequest` and `TooLong` with `name` as their field."""
    most, characters = _max_fields(request), _limits(request).max_characters
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
        return collected(pairs)
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
        most = _max_fields(request)
        form = await request.form(max_files=most, max_fields=most, max_part_size=sys.maxsize)
    except HTTPException as error:  # raised by Starlette for a malformed form
        raise InvalidRequest("body", error.detail) from None
    texts = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
    file = next((name for name, value in form.multi_items() if not isinstance(value, str)), None)
    if file is not None:
        await form.close()
        raise InvalidRequest(file[:_LONGEST_NAME] or "body", "must be text, not a file")
    return texts


def _max_fields(request: Request) -> int:
    return _limits(request).max_texts + _OTHER_FIELDS


def _limits(request: Request) -> Limits:
    limits: Limits = request.app.state.service.translator.limits
    return limits


def collected(pairs: Iterable[tuple[str, str]]) -> dict[str, object]:
    """Return the fields of a form; a repeated one becomes an array."""
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}
