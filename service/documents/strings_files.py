"""Keys and values between comments: Apple's strings, `"key" = "value";`, and Java's properties, `key = value`."""

from collections.abc import Iterator
from functools import partial
from typing import Final

import regex

from service.documents.encodings import PROPERTIES
from service.documents.paragraph import ReadOptions
from service.documents.passages import Passage
from service.errors import InvalidRequest

_STRING: Final = r'"(?:[^"\\]++|\\.)*+"'
_ENTRY: Final = regex.compile(
    rf"(?:\s++|//[^\n]*+|/\*.*?\*/)*+(?:{_STRING}|[\w.-]++)\s*+=\s*+(?P<value>{_STRING})\s*+;", regex.DOTALL
)
_END: Final = regex.compile(r"(?:\s++|//[^\n]*+|/\*.*?\*/)*+\Z", regex.DOTALL)
_ESCAPE: Final = regex.compile(r"""\\(?:U([0-9a-fA-F]{4})|(["'\\]))""")
_PROPERTY: Final = regex.compile(
    r"^[ \t\f]*+(?![#!])(?P<key>(?:[^\\=:\s]|\\.)++)[ \t\f]*+[=:]?[ \t\f]*+(?P<value>(?:[^\\\r\n]|\\(?:\r\n|.))*+)",
    regex.M | regex.S,
)
_JOINT: Final = regex.compile(r"\\\r?\n[ \t\f]*")
_ARGUMENT: Final = regex.compile(r"\{[0-9]")
_PROPERTY_ESCAPE: Final = regex.compile(r"\\(?:u([0-9a-fA-F]{4})|([:=#! \\]))")


def read_strings(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the values. Escapes such as `\\n` stay: a translation copies them."""
    done = 0
    while found := _ENTRY.match(text, done):
        done = found.end()
        yield Passage(found.span("value"), _ESCAPE.sub(_unescaped, found["value"][1:-1]), _quoted, context="entry")
    if _END.match(text, done) is None:
        raise InvalidRequest("file", f"the strings are broken after line {text.count(chr(10), 0, done) + 1}")


def _unescaped(found: regex.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else found[2]


def _quoted(text: str) -> str:
    escaped = regex.sub(r'\\(?![nrt\n])|"', lambda found: f"\\{found[0]}", text)
    return f'"{escaped}"'


def read_properties(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the values. Characters are escaped as `\\u00e9` if the file escapes others so, or has none.

    With arguments of Java (`{0}`) an apostrophe is doubled, as others in the file are, or a letter: one begins a quote.
    """
    is_ascii = text.isascii() or "\\u" in text
    apostrophe = "''" if "''" in text else "\u2019"
    for found in _PROPERTY.finditer(text):
        value = _PROPERTY_ESCAPE.sub(_unescaped, _JOINT.sub("", found["value"]))
        is_format = _ARGUMENT.search(value) and "'" not in value.replace("''", "")
        write = partial(_property, is_ascii=is_ascii, apostrophe=apostrophe if is_format else "'")
        words = value.replace("''", "'") if is_format else value
        yield Passage(found.span("value"), words, write, context="entry")


def _property(text: str, *, is_ascii: bool, apostrophe: str) -> str:
    escaped = regex.sub(r"\\(?![nrtf])", r"\\\\", text).replace("'", apostrophe).replace("\n", "\\n")
    escaped = f"\\{escaped}" if escaped.startswith(" ") else escaped
    return escaped.encode("ascii", PROPERTIES.lacking).decode() if is_ascii else escaped
