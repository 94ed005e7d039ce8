"""JSON: its strings, wherever they stand; and Apple's string catalogs, which have each text in all its languages."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import regex

from service.documents.paragraph import Paragraph, Piece, ReadOptions
from service.documents.passages import Passage, plain_items, split_passages
from service.documents.tagged import Item, Object
from service.errors import InvalidRequest

_TOKEN: Final = regex.compile(r'[{}\[\],]|(?P<string>"(?:[^"\\]++|\\.)*+")(?P<colon>\s*+:)?')
_INDENT: Final = "\n" + " " * 8  # of a language
_VARIABLE: Final = regex.compile(r"(%(?:[0-9]+\$)?#@\w+@|%arg\b)")
"""A part of a text whose cases stand elsewhere, and the number in such a case."""

_write: Final = partial(json.dumps, ensure_ascii=False)
"""Writes a string."""

Path = tuple[str, ...]
"""The names of the fields around a value, and the numbers of the items of lists."""


def read_json(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the strings of JSON; names of fields are copied."""
    return _passages(text, lambda path: True)


def read_arb(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the messages of a Flutter app; what describes them (`@name`, `@@locale`) is copied."""
    return _passages(text, lambda path: not path or not path[0].startswith("@"))


def load_json(text: str) -> Any:
    """Return what JSON holds. Raises `InvalidRequest`."""
    try:
        return json.loads(text, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidRequest("file", f"the JSON is broken: {error.msg[:1].lower()}{error.msg[1:]} ({place})") from None


def _passages(text: str, is_text: Callable[[Sequence[str]], bool]) -> Iterator[Passage]:
    load_json(text)
    for path, start, end in json_places(text):
        if text[start] == '"' and is_text(path):
            yield Passage((start, end), json.loads(text[start:end]), _write, context="entry")


def json_places(text: str) -> Iterator[tuple[Path, int, int]]:
    """Yield the path and the place of each string, list and object of valid JSON, after those in it."""
    path: list[str] = []
    starts: list[int] = []
    for found in _TOKEN.finditer(text):
        match found[0]:
            case "{" | "[":
                starts.append(found.start())
                path.append("0")
            case "}" | "]":
                path.pop()
                yield tuple(path), starts.pop(), found.end()
            case ",":
                path[-1] = str(int(path[-1]) + 1) if text[starts[-1]] == "[" else ""
            case _ if found["colon"]:
                path[-1] = json.loads(found["string"])
            case _:
                yield tuple(path), *found.span()


def read_catalog(text: str, options: ReadOptions) -> Iterator[Passage]:
    """Add the target language to entries without it, for a review, with all cases of plurals and devices."""
    catalog = load_json(text)
    if not isinstance(catalog, dict) or not isinstance(catalog.get("strings"), dict):
        raise InvalidRequest("file", "it is not a string catalog: it has no strings")
    source = str(catalog.get("sourceLanguage", "en"))
    options.check("the file", source)
    inside: dict[Path, tuple[int, int]] = {}  # the places in an entry
    for path, start, end in json_places(text):
        inside[path[2:]] = start, end
        if path[:1] == ("strings",) and len(path) == 2:
            entry = catalog["strings"][path[1]]
            if isinstance(entry, dict) and entry.get("shouldTranslate") is not False:
                yield Passage((start, end), pieces=_entry(text, inside, path[1], source, options.target))
            else:
                yield Passage((start, end), kept="it says that it is not to be translated")
            inside = {}


def _entry(text: str, inside: Mapping[Path, tuple[int, int]], key: str, source: str, target: str) -> Iterator[Piece]:
    start, end = inside[()]
    original = inside.get(("localizations", source))
    unit = text[slice(*original)] if original else _unit(key)
    found = list(split_passages(unit, _catalog_passages(unit)))
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
        member = f"{opening}{_INDENT}{_write(target)} : "
        yield from [before, comma, member, *found, closing, text[start + len(before) : end]]


def _unit(text: str) -> str:
    unit = {"stringUnit": {"state": "new", "value": text}}
    return json.dumps(unit, ensure_ascii=False, indent=2, separators=(",", " : ")).replace("\n", _INDENT)


def _catalog_passages(unit: str) -> Iterator[Passage]:
    for path, start, end in json_places(unit):
        if path[-1:] == ("value",):
            text = json.loads(unit[start:end])
            items: list[Item] = []
            for number, part in enumerate(_VARIABLE.split(text)):
                items += [Object([part], is_word=True)] if number % 2 else plain_items(part)
            yield Passage((start, end), text, _write, context="entry", items=items)
        elif path[-1:] == ("state",):
            yield Passage((start, end), pieces=['"needs_review"'])
