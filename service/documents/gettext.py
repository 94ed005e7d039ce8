"""PO files to pieces: only translations change, and every other byte stays, unlike with libraries that write anew."""

from collections.abc import Iterator
from typing import Final

import regex

from service.documents.encodings import decode_as
from service.documents.paragraph import ReadOptions
from service.documents.passages import Passage
from service.errors import InvalidRequest

_STRING: Final = r'"(?:[^"\\\n]++|\\.)*+"'
_FIELD: Final = regex.compile(
    rf"^(?P<before>[ \t]*(?P<name>msgctxt|msgid|msgid_plural|msgstr(?:\[(?P<form>[0-9]{{1,2}})\])?)[ \t]+)"
    rf"(?P<value>{_STRING}(?:[ \t]*\r?\n[ \t]*{_STRING})*+)",
    regex.MULTILINE,
)
_PART: Final = regex.compile(_STRING)
_COMMENT: Final = regex.compile(r"\s*+(?:#[^\n]*+)?")
_FUZZY: Final = regex.compile(r"^#,.*\bfuzzy\b", regex.MULTILINE)
_CHARSET: Final = regex.compile(rb"charset=\s*([A-Za-z][A-Za-z0-9._-]{0,39})")
_CHARSET_BYTES: Final = 16_384
_ESCAPE: Final = regex.compile(r"\\(?:([abfnrtv\\\"'?])|x([0-9a-fA-F]{1,2})|([0-7]{1,3}))")
_CONTROLS: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))


def decode_po(data: bytes) -> tuple[str, str]:
    """Decode by the charset of the header. Returns the text and the encoding."""
    declared = _CHARSET.search(data[:_CHARSET_BYTES])
    encoding = declared[1].decode().lower() if declared and declared[1] != b"CHARSET" else "utf-8"
    return decode_as(data, encoding, "it")


def read_po(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read a PO file: entries without a translation, or with a fuzzy one, are translated; flags stay.

    The first form of a plural is translated from the singular, all others from the plural.
    """
    done = 0
    singular = plural = last_name = ""
    is_fuzzy = False
    for found in _FIELD.finditer(text):
        between = text[done : found.start()]
        _check(between, text, done)
        done = found.end()
        value = unquote(found["value"])
        name = found["name"]
        if name == "msgctxt" or (name == "msgid" and last_name != "msgctxt"):
            is_fuzzy = _FUZZY.search(between) is not None
        last_name = name
        if name == "msgid":
            singular, plural = value, ""
        elif name == "msgid_plural":
            plural = value
        elif name.startswith("msgstr") and singular and (is_fuzzy or not value):
            source = singular if found["form"] in (None, "0") else plural
            yield Passage(found.span("value"), source, quote, context="entry", is_in_place=False)
    _check(text[done:], text, done)


def _check(between: str, text: str, position: int) -> None:
    """Raise `InvalidRequest` if there is something besides comments between two fields."""
    for line in between.splitlines(keepends=True):
        if not _COMMENT.fullmatch(line.strip()):
            number = text.count("\n", 0, position) + 1
            raise InvalidRequest("file", f"the PO file is broken at line {number}")
        position += len(line)


def unquote(value: str) -> str:
    """Join the strings of a field, and replace their escapes."""
    return "".join(_ESCAPE.sub(_escaped, part[1:-1]) for part in _PART.findall(value))


def _escaped(found: regex.Match[str]) -> str:
    if found[1]:
        return _CONTROLS.get(found[1], str(found[1]))
    return chr(int(found[2], 16) if found[2] else int(found[3], 8))


def quote(text: str) -> str:
    """Write a string, or one string for each of several lines, as gettext does."""
    lines = text.splitlines(keepends=True) if "\n" in text.rstrip("\n") else [text]
    quoted = [f'"{_escape(line)}"' for line in lines]
    return quoted[0] if len(quoted) == 1 else "\n".join(['""', *quoted])


def _escape(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    for name, control in _CONTROLS.items():
        escaped = escaped.replace(control, f"\\{name}")
    return escaped
