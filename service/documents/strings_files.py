"""Apple's `.strings`: lines `"key" = "value";` between comments."""

from collections.abc import Iterator
from typing import Final

import regex

from service.documents.paragraph import ReadOptions
from service.documents.passages import Passage
from service.errors import InvalidRequest

_STRING: Final = r'"(?:[^"\\]++|\\.)*+"'
_ENTRY: Final = regex.compile(
    rf"(?:\s++|//[^\n]*+|/\*.*?\*/)*+(?:{_STRING}|[\w.-]++)\s*+=\s*+(?P<value>{_STRING})\s*+;", regex.DOTALL
)
_END: Final = regex.compile(r"(?:\s++|//[^\n]*+|/\*.*?\*/)*+\Z", regex.DOTALL)
_ESCAPE: Final = regex.compile(r'\\(?:U([0-9a-fA-F]{4})|(["\\]))')


def read_strings(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the values. Escapes such as `\\n` stay: a translation copies them."""
    done = len(text) - len(text.removeprefix("\ufeff"))
    while found := _ENTRY.match(text, done):
        done = found.end()
        yield Passage(found.span("value"), _ESCAPE.sub(_unescaped, found["value"][1:-1]), _quoted, context="entry")
    if _END.match(text, done) is None:
        raise InvalidRequest("file", f"the strings are broken after line {text.count(chr(10), 0, done) + 1}")


def _unescaped(found: regex.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else found[2]


def _quoted(text: str) -> str:
    escaped = regex.sub(r'\\(?![nrt])|"', lambda found: f"\\{found[0]}", text)
    return f'"{escaped}"'
