"""PO files to passages: only translations change, and every other byte stays, unlike with libraries that write anew."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import regex

from service.documents.icu_messages import CASES
from service.documents.paragraph import ReadOptions
from service.documents.passages import Passage
from service.documents.rest import rest_items
from service.documents.tagged import Item, Object
from service.errors import InvalidRequest

_STRING: Final = r'"(?:[^"\\\n]++|\\.)*+"'
_FIELD: Final = regex.compile(
    rf"^(?P<before>[ \t]*(?P<name>msgctxt|msgid|msgid_plural|msgstr(?:\[(?P<form>[0-9]{{1,2}})\])?)[ \t]+)"
    rf"(?P<value>{_STRING}(?:[ \t]*\r?\n[ \t]*{_STRING})*+)",
    regex.MULTILINE,
)
_PART: Final = regex.compile(_STRING)
_COMMENT: Final = regex.compile(r"\s*+(?:#[^\n]*+)?")
_FLAGS: Final = regex.compile(r"^#,(?P<flags>[^\n]*)$", regex.MULTILINE)
_LANGUAGE: Final = regex.compile(r"^Language:[ \t]*(\w[\w@-]*)", regex.M)
_ESCAPE: Final = regex.compile(r"\\(?:([abfnrtv\\\"'?])|x([0-9a-fA-F]{1,2})|([0-7]{1,3}))")
_CONTROLS: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_WRITTEN: Final = str.maketrans({sign: f"\\{name}" for name, sign in {**_CONTROLS, "\\": "\\", '"': '"'}.items()})
_OPTION: Final = regex.compile(
    r"\s*+(?:-{1,2}[\w?][\w-]*+(?:[ =]?[\[<]?=?[A-Z<][^\s,]*+)?(?:,\s?+|(?=\s\s)))++\s{2,}+(?=\S)"
)
"""The beginning of a line of help: options, and the space up to their explanation."""


class _Translation(NamedTuple):
    """A translation, and its entry."""

    source: str
    """Its text: of a plural, the singular for the first form, and the plural for all others. "" in the header."""
    value: str
    place: tuple[int, int]
    entry: int
    """The beginning of the first field of the entry."""
    flags: regex.Match[str] | None

    @property
    def is_fuzzy(self) -> bool:
        return self.flags is not None and regex.search(r"\bfuzzy\b", self.flags["flags"]) is not None


def _translations(text: str) -> Iterator[_Translation]:
    entry = done = 0
    flags: regex.Match[str] | None = None
    singular = plural = last_name = ""
    for found in _FIELD.finditer(text):
        name, value = found["name"], unquote(found["value"])
        if name == "msgctxt" or (name == "msgid" and last_name != "msgctxt"):
            entry, flags = found.start(), next(_FLAGS.finditer(text, done, found.start()), None)
        if name == "msgid":
            singular = plural = value
        elif name == "msgid_plural":
            plural = value
        elif name.startswith("msgstr"):
            source = singular if found["form"] in (None, "0") else plural
            yield _Translation(source, value, found.span("value"), entry, flags)
        done, last_name = found.end(), name


def read_po(text: str, options: ReadOptions) -> Iterator[Passage]:
    """Read a PO file: entries without a translation, or with a fuzzy one, are translated, and become fuzzy."""
    _check(text)
    marked = -1  # the entry that was marked last: forms of a plural share one mark
    for found in _translations(text):
        if not found.source:
            if language := _LANGUAGE.search(found.value):
                options.check("its header", target=language[1])
        elif not found.value or found.is_fuzzy:
            if options.marks_fuzzy and not found.is_fuzzy and found.entry != marked:
                yield _fuzzy(found)
                marked = found.entry
            items = None if CASES.search(found.source) else list(_items(found.source))
            yield Passage(found.place, found.source, quote, context="entry", items=items, is_in_place=False)


def po_units(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the language of a PO file's header, and each text and translation, "" for an unfinished one."""
    language = ""
    for found in _translations(text):
        if found.source:
            yield language, found.source, "" if found.is_fuzzy else found.value
        elif declared := _LANGUAGE.search(found.value):
            language = declared[1]


def _fuzzy(found: _Translation) -> Passage:
    """Mark an entry as one that a person has to read."""
    if found.flags is None:
        return Passage((found.entry, found.entry), pieces=["#, fuzzy\n"])
    return Passage((found.flags.start("flags"),) * 2, pieces=[" fuzzy,"])


def _items(text: str) -> Iterator[Item]:
    """Split a message; options of a program, and the columns of its help, stay where they are."""
    if "  " not in text or "-" not in text:
        yield from rest_items(text)
        return
    for line in text.splitlines(keepends=True):
        option = _OPTION.match(line)
        if option is not None:
            yield Object([option[0]], is_break=True)
        yield from rest_items(line[option.end() if option else 0 :])


def _check(text: str) -> None:
    """Raise `InvalidRequest` if there is something besides fields and comments."""
    for number, line in enumerate(_FIELD.sub(lambda field: "\n" * field[0].count("\n"), text).splitlines(), 1):
        if not _COMMENT.fullmatch(line.strip()):
            raise InvalidRequest("file", f"the PO file is broken at line {number}")


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
    quoted = [f'"{line.translate(_WRITTEN)}"' for line in lines]
    return quoted[0] if len(quoted) == 1 else "\n".join(['""', *quoted])
