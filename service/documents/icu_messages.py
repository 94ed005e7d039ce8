"""Messages with cases (ICU), such as `{n, plural, one {# file} other {# files}}`: the texts of their branches.

A text around the cases becomes a part of each branch, which means the same: a branch is a whole sentence then.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Final

import regex

from service.documents.tagged import Item, Object, Words

CASES: Final = regex.compile(r"\{\s*+[\w.]++\s*+,\s*+(?:plural|select|selectordinal)\s*+,(?:\s*+offset:\s*+\d++)?+")
"""The beginning of cases."""
_CASE: Final = regex.compile(r"\s*+(?:=\d++|[\w.-]++)\s*+(?=\{)")
QUOTED: Final = r"'[{}#|](?:[^']|'')*+'?"
"""Syntax that an apostrophe makes text."""
_BRACE: Final = regex.compile(rf"{QUOTED}|[{{}}]")
_COPIED: Final = regex.compile(rf"({QUOTED}(?:\w++{QUOTED})*+)")
_LONGEST: Final = 4_000
_LONGEST_BRANCHES: Final = 20_000
"""Characters of all branches; each repeats the text around its cases."""

Read = Callable[[str], Iterable[Item]]
"""Splits a text into words and tags."""


def message_items(text: str, read: Read) -> list[Item] | None:
    """Return the branches of a message, with its syntax as breaks between them; None if it is broken or too long."""
    items = [*_items(text, read)] if len(text) <= _LONGEST and _borders(text) else []
    characters = sum(len(item.text) for item in items if isinstance(item, Words))
    return items if 0 < characters <= _LONGEST_BRANCHES else None


def _items(text: str, read: Read) -> Iterator[Item]:
    borders = _borders(text)
    if not borders:
        for item in read(text):
            parts = _COPIED.split(item.text) if isinstance(item, Words) else []
            words = (Object([part], is_word=True) if at % 2 else Words(part) for at, part in enumerate(parts))
            yield from (each for each in words if each != Words("")) if parts else [item]
        return
    before, after = text[: borders[0]], text[borders[-1] :]
    is_apart = not (before + after).strip() or "#" in before + after or CASES.search(after) is not None
    if is_apart:
        yield from _items(before, read)
    for number, part in enumerate(text[start:end] for start, end in pairwise(borders)):
        if number % 2:
            yield from _items(part if is_apart else before + part + after, read)
        else:
            yield Object([part], is_break=True)
    if is_apart:
        yield from _items(after, read)


def _borders(text: str) -> list[int]:
    """Return where the first cases begin, where each of their branches begins and ends, and where they end.

    Empty without cases, and for a broken message.
    """
    closings: dict[int, int] = {}
    opened: list[int] = []
    for brace in _BRACE.finditer(text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif brace[0] == "}":
            if not opened:
                return []
            closings[opened.pop()] = brace.start()
    found = next((each for each in CASES.finditer(text) if each.start() in closings), None)
    if found is None or opened:
        return []
    borders, place = [found.start()], found.end()
    while (case := _CASE.match(text, place)) is not None:
        borders += [case.end() + 1, closings[case.end()]]
        place = borders[-1] + 1
    if text[place : closings[borders[0]]].strip():
        return []
    return [*borders, closings[borders[0]] + 1]
