"""JSON: its strings, wherever they stand; and where the values of a path stand, for formats that are JSON."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import regex

from service.documents.paragraph import ReadOptions
from service.documents.passages import Passage
from service.errors import InvalidRequest

_TOKEN: Final = regex.compile(r'[{}\[\],]|(?P<string>"(?:[^"\\]++|\\.)*+")(?P<colon>\s*+:)?')

Path = tuple[str, ...]
"""The names of the fields around a value, and the numbers of the items of lists."""


def read_json(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the strings of JSON; names of fields are copied."""
    return json_passages(text, lambda path: True)


def read_arb(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the messages of a Flutter app; what describes them (`@name`, `@@locale`) is copied."""
    return json_passages(text, lambda path: not path or not path[0].startswith("@"))


def load_json(text: str) -> Any:
    """Return what JSON holds. Raises `InvalidRequest`."""
    try:
        return json.loads(text.removeprefix("\ufeff"), parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidRequest("file", f"the JSON is broken: {error.msg[:1].lower()}{error.msg[1:]} ({place})") from None
    except RecursionError:
        raise InvalidRequest("file", "the JSON is nested too deep") from None


def json_passages(text: str, is_text: Callable[[Sequence[str]], bool]) -> Iterator[Passage]:
    """Read the strings of JSON whose path `is_text` accepts. Raises `InvalidRequest`."""
    load_json(text)
    return _passages(text, is_text)


def _passages(text: str, is_text: Callable[[Sequence[str]], bool]) -> Iterator[Passage]:
    for path, start, end in json_places(text):
        if text[start] == '"' and is_text(path):
            value = json.loads(text[start:end])
            yield Passage((start, end), value, json_string, context="entry")


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


def json_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
