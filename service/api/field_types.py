"""The bases of request bodies and the types of their fields, with limits and error messages for people."""

import re
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, WrapValidator, model_validator
from pydantic_core import PydanticCustomError, ValidationError, from_json

from service.text.glossary import LONGEST_TERM, MAX_ENTRIES, VISIBLE
from service.translation.options import MAX_BEAM_SIZE

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
