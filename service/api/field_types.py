"""Bodies of requests and the kinds of fields that they have: what is taken, and what is said of it otherwise."""

import re
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, WrapValidator
from pydantic_core import PydanticCustomError, ValidationError, from_json

from service.text.glossary import LONGEST_TERM, MAX_ENTRIES, VISIBLE
from service.translation.options import MAX_BEAM_SIZE

_STRING: Final = re.compile(rb'"[^"]*"?')


class RequestBody(BaseModel):
    """What somebody sends. Nothing of it stays when the request is over.

    Pydantic would keep 16,384 names and short values of any JSON, and with them the memory that they lie in.
    """

    model_config = ConfigDict(cache_strings="none")


def has_more_values(json: bytes, most: int) -> bool:
    """Whether there are more than `most` fields and elements, on all levels together; an empty array or object is two.

    They are counted, not built: two megabytes of small values become fifty megabytes of objects, and all other requests
    wait meanwhile.
    """
    if _count(json) <= most:
        return False
    # What is in strings does not count. An escaped quote ends no string; a backslash that is escaped escapes nothing.
    bare = json.replace(rb"\\", b"").replace(rb"\"", b"")
    # A value has two strings at most, its name and itself.
    return bare.count(b'"') > 4 * most or _count(_STRING.sub(b"", bare)) > most


def _count(json: bytes) -> int:
    """Of a container's values the first follows its opening, each other a comma."""
    return json.count(b",") + json.count(b"[") + json.count(b"{")


def _string_or_strings(value: object) -> object:
    """A union reports each alternative's problem, and that of each element; people want one sentence."""
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(each, str) for each in value)):
        return value
    raise PydanticCustomError("text_type", "must be a string or an array of strings")


def _not_blank(value: Any, validate: Any) -> Any:
    """People want words, not a pattern."""
    try:
        return validate(value)
    except ValidationError as error:
        if error.errors()[0]["type"] != "string_pattern_mismatch":
            raise
        raise PydanticCustomError("blank", "must not be blank") from None


def _true_or_false(value: object) -> object:
    """A form or a URL says it in words; Pydantic would take `1`, `on` and `y` as well."""
    if isinstance(value, str) and value not in ("true", "false"):
        raise PydanticCustomError("flag_type", "must be true or false")
    return value


Flag = Annotated[bool, BeforeValidator(_true_or_false)]


def _from_json(value: Any) -> Any:
    """A form and a URL have no objects: there it is JSON."""
    if not isinstance(value, str):
        return value
    if has_more_values(value.encode(errors="replace"), MAX_ENTRIES):
        raise PydanticCustomError("too_long", f"more than {MAX_ENTRIES} entries")
    try:
        return from_json(value, cache_strings="none")
    except ValueError:
        raise PydanticCustomError("json_type", "must be an object, in JSON") from None


def _not_too_many(value: Any) -> Any:
    """Pydantic counts them only when it has looked at all, and keeps a problem of each that is wrong."""
    if isinstance(value, dict) and len(value) > MAX_ENTRIES:
        raise PydanticCustomError("too_long", f"more than {MAX_ENTRIES} entries")
    return value


def _number(value: object) -> object:
    """LibreTranslate's clients may write it as a string."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else value


Texts = Annotated[str | list[str], BeforeValidator(_string_or_strings)]
Word = Annotated[str, Field(pattern=VISIBLE, max_length=LONGEST_TERM), WrapValidator(_not_blank)]
Entries = Annotated[
    dict[Word, Word], BeforeValidator(_not_too_many), BeforeValidator(_from_json), Field(max_length=MAX_ENTRIES)
]
LanguageCode = Annotated[str, Field(min_length=1, max_length=16)]
ApiKey = Annotated[
    str | None, Field(description="where the server wants one; or in `Authorization`", examples=["dragoman-..."])
]
Secret = Annotated[str | None, Field(description="ignored: what LibreTranslate's own page proves itself with")]
Alternatives = Annotated[
    int,
    Field(ge=0, lt=MAX_BEAM_SIZE, description="other translations wanted of each text, by beam search", examples=[2]),
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
