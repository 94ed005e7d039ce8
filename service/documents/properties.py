"""Java's properties: keys and values, with lines that go on after a backslash."""

from collections.abc import Iterator
from functools import partial
from typing import Final

import regex

from service.documents.encodings import decode_as
from service.documents.paragraph import ReadOptions
from service.documents.passages import Passage
from service.errors import InvalidRequest

_ENTRY: Final = regex.compile(
    r"^[ \t\f]*+(?![#!])(?P<key>(?:[^\\=:\s]|\\.)++)[ \t\f]*+[=:]?[ \t\f]*+(?P<value>(?:[^\\\r\n]|\\(?:\r\n|.))*+)",
    regex.M | regex.S,
)
_JOINT: Final = regex.compile(r"\\\r?\n[ \t\f]*")
_ESCAPE: Final = regex.compile(r"\\(?:u([0-9a-fA-F]{4})|([:=#! \\]))")


def decode_properties(data: bytes) -> tuple[str, str]:
    """Decode UTF-8, or Latin-1, the encoding of old properties."""
    try:
        return decode_as(data, "utf-8", "it")
    except InvalidRequest:
        return decode_as(data, "iso8859-1", "it")


def read_properties(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the values. Characters are escaped as `\\u00e9` if the file escapes others so, or has none."""
    is_ascii = text.isascii() or "\\u" in text
    for found in _ENTRY.finditer(text):
        value = _ESCAPE.sub(_unescaped, _JOINT.sub("", found["value"]))
        yield Passage(found.span("value"), value, partial(_written, is_ascii=is_ascii), context="entry")


def _unescaped(found: regex.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else found[2]


def _written(text: str, *, is_ascii: bool) -> str:
    escaped = regex.sub(r"\\(?![nrtf])", r"\\\\", text).replace("\n", "\\n")
    escaped = f"\\{escaped}" if escaped.startswith(" ") else escaped
    if not is_ascii:
        return escaped
    units = escaped.encode("utf-16-be")
    codes = (int.from_bytes(units[place : place + 2]) for place in range(0, len(units), 2))
    return "".join(chr(code) if code < 128 else f"\\u{code:04x}" for code in codes)
