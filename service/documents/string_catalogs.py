"""Apple's string catalogs (xcstrings): JSON that has each text in all its languages."""

import json
from collections.abc import Iterator, Mapping
from typing import Final

import regex

from service.documents.json_files import Path, json_places, json_string, load_json
from service.documents.paragraph import Kept, Paragraph, Piece, ReadOptions
from service.documents.passages import Passage, plain_items, split_passages
from service.documents.tagged import Item, Object
from service.errors import InvalidRequest

_INDENT: Final = "\n" + " " * 8  # of a language
_VARIABLE: Final = regex.compile(r"(%(?:[0-9]+\$)?#@\w+@|%arg\b)")
"""A part of a text whose cases stand elsewhere, and the number in such a case."""


def split_catalog(text: str, options: ReadOptions) -> Iterator[Piece]:
    """Add the target language to entries without it, for a review, with all cases of plurals and devices."""
    catalog = load_json(text)
    if not isinstance(catalog, dict) or not isinstance(catalog.get("strings"), dict):
        raise InvalidRequest("file", "it is not a string catalog: it has no strings")
    source = str(catalog.get("sourceLanguage", "en"))
    options.check("the file", source)
    done = 0
    inside: dict[Path, tuple[int, int]] = {}  # the places in an entry
    for path, start, end in json_places(text):
        inside[path[2:]] = start, end
        if path[:1] == ("strings",) and len(path) == 2:
            entry = catalog["strings"][path[1]]
            yield text[done:start]
            if isinstance(entry, dict) and entry.get("shouldTranslate") is not False:
                yield from _entry(text, inside, path[1], source, options.target)
            else:
                yield Kept(text[start:end], "it says that it is not to be translated")
            done, inside = end, {}
    yield text[done:]


def _entry(text: str, inside: Mapping[Path, tuple[int, int]], key: str, source: str, target: str) -> Iterator[Piece]:
    start, end = inside[()]
    original = inside.get(("localizations", source))
    unit = text[slice(*original)] if original else _unit(key)
    found = list(split_passages(unit, _passages(unit)))
    states = [text[slice(*place)] for path, place in inside.items() if path[1:2] == (target,) and path[-1] == "state"]
    if not any(isinstance(piece, Paragraph) for piece in found) or any(state != '"new"' for state in states):
        yield text[start:end]
    elif old := inside.get(("localizations", target)):
        yield from [text[start : old[0]], *found, text[old[1] : end]]
    else:
        holder = inside.get(("localizations",))
        before = text[start : (holder[1] if holder else end) - 1].rstrip()
        comma = "" if before.endswith("{") else ","
        opening, closing = ("", "") if holder else (f'{_INDENT[:-2]}"localizations" : {{', f"{_INDENT[:-2]}}}")
        member = f"{opening}{_INDENT}{json_string(target)} : "
        yield from [before, comma, member, *found, closing, text[start + len(before) : end]]


def _unit(text: str) -> str:
    unit = {"stringUnit": {"state": "new", "value": text}}
    return json.dumps(unit, ensure_ascii=False, indent=2, separators=(",", " : ")).replace("\n", _INDENT)


def _passages(unit: str) -> Iterator[Passage]:
    for path, start, end in json_places(unit):
        if path[-1:] == ("value",):
            text = json.loads(unit[start:end])
            items: list[Item] = []
            for number, part in enumerate(_VARIABLE.split(text)):
                items += [Object([part], is_word=True)] if number % 2 else plain_items(part)
            yield Passage((start, end), text, json_string, context="entry", items=items)
        elif path[-1:] == ("state",):
            yield Passage((start, end), literal='"needs_review"')
