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
_OPTION: Final = regex.compile(
    r"\s*+(?:-{1,2}[\w?][\w-]*+(?:[ =]?[\[<]?=?[A-Z<][^\s,]*+)?(?:,\s?+|(?=\s\s)))++\s{2,}+(?=\S)"
)
"""The beginning of a line of help: options, and the space up to their explanation."""


class _Entry(NamedTuple):
    """The fields before the translation of an entry."""

    place: int
    """The beginning of its first field."""
    flags: regex.Match[str] | None
    singular: str = ""
    plural: str = ""


def read_po(text: str, options: ReadOptions) -> Iterator[Passage]:
    """Read a PO file: entries without a translation, or with a fuzzy one, are translated, and become fuzzy.

    The first form of a plural is translated from the singular, all others from the plural.
    """
    done = 0
    entry = _Entry(0, None)
    last_name = ""
    for found in _FIELD.finditer(text):
        _check(text[done : found.start()], text, done)
        flags = next(_FLAGS.finditer(text, done, found.start()), None)
        done = found.end()
        value, name = unquote(found["value"]), found["name"]
        if name == "msgctxt" or (name == "msgid" and last_name != "msgctxt"):
            entry = _Entry(found.start(), flags)
        if name == "msgid":
            entry = entry._replace(singular=value)
        elif name == "msgid_plural":
            entry = entry._replace(plural=value)
        elif name.startswith("msgstr") and not entry.singular and last_name == "msgid":
            if language := _LANGUAGE.search(value):
                options.check("its header", target=language[1])
        elif name.startswith("msgstr") and (not value or _is_fuzzy(entry)):
            if options.marks_fuzzy and last_name in ("msgid", "msgid_plural") and not _is_fuzzy(entry):
                yield _fuzzy(entry)
            source = entry.singular if found["form"] in (None, "0") else entry.plural
            items = None if CASES.search(source) else list(_items(source))
            yield Passage(found.span("value"), source, quote, context="entry", items=items, is_in_place=False)
        last_name = name
    _check(text[done:], text, done)


def po_units(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the language of a PO file's header, and each entry's text and translation, "" for an unfinished one.

    Of a plural there are the singular and the first form, the plural and the last.
    """
    done, language, last_name = 0, "", ""
    entry = _Entry(0, None)
    for found in _FIELD.finditer(text):
        name, value = found["name"], unquote(found["value"])
        if name == "msgctxt" or (name == "msgid" and last_name != "msgctxt"):
            entry = _Entry(done, next(_FLAGS.finditer(text, done, found.start()), None))
        if name == "msgid":
            entry = entry._replace(singular=value)
        elif name == "msgid_plural":
            entry = entry._replace(plural=value)
        elif name.startswith("msgstr") and not entry.singular:
            declared = _LANGUAGE.search(value)
            language = declared[1] if declared else language
        elif name.startswith("msgstr"):
            source = entry.singular if found["form"] in (None, "0") else entry.plural
            yield language, source, "" if _is_fuzzy(entry) else value
        done, last_name = found.end(), name


def _is_fuzzy(entry: _Entry) -> bool:
    return entry.flags is not None and regex.search(r"\bfuzzy\b", entry.flags["flags"]) is not None


def _fuzzy(entry: _Entry) -> Passage:
    """Mark an entry as one that a person has to read."""
    if entry.flags is None:
        return Passage((entry.place, entry.place), literal="#, fuzzy\n")
    return Passage((entry.flags.start("flags"),) * 2, literal=" fuzzy,")


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
