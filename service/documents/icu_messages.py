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
_CASE: Final = regex.compile(r"\s*+(?:=\d++|[\w.-]++)\s*+\{")
_QUOTED: Final = r"'[{}#|](?:[^']|'')*+'?"
_SIGN: Final = regex.compile(rf"{_QUOTED}|''|[{{}}]")
"""A quoted text, an apostrophe, or a brace."""
_COPIED: Final = regex.compile(rf"({_QUOTED}(?:\w++{_QUOTED})*+)")
_LONGEST: Final = 4_000
_LONGEST_BRANCHES: Final = 20_000
"""Characters of all branches; each repeats the text around its cases."""

Read = Callable[[str], Iterable[Item]]
"""Splits a text into words and tags."""


def message_items(text: str, read: Read) -> list[Item] | None:
    """Return the branches of a message, with its syntax as breaks between them; None if it is broken or too long."""
    try:
        items = [*_items(text, read)] if len(text) <= _LONGEST else []
    except ValueError:
        return None
    characters = sum(len(item.text) for item in items if isinstance(item, Words))
    return items if 0 < characters <= _LONGEST_BRANCHES else None


def _items(text: str, read: Read) -> Iterator[Item]:
    places = _places(text)
    before, after = (text[: places[0]], text[places[-1] :]) if places else (text, "")
    is_apart = "#" in before + after or CASES.search(after) is not None
    if is_apart or not places:
        yield from _words(before, read)
    for number, part in enumerate(text[start:end] for start, end in pairwise(places)):
        if number % 2:
            yield from _items(part if is_apart else before + part + after, read)
        else:
            yield Object([part], is_break=True)
    if is_apart:
        yield from _items(after, read)


def _words(text: str, read: Read) -> Iterator[Item]:
    """Yield the words and tags of a branch; quoted texts are copied."""
    for item in read(text):
        if not isinstance(item, Words):
            yield item
            continue
        for number, part in enumerate(_COPIED.split(item.text)):
            if part:
                yield Object([part], is_word=True) if number % 2 else Words(part.replace("''", "\u2019"))


def _places(text: str) -> list[int]:
    """Return where the first cases of a text begin, where each of their branches begins and ends, and where they end.

    Raises `ValueError` if they do not end.
    """
    place = 0
    while (sign := _SIGN.search(text, place)) is not None:
        place = sign.end()
        if sign[0] == "{" and (found := CASES.match(text, sign.start())) is not None:
            places, place = [sign.start()], found.end()
            while (case := _CASE.match(text, place)) is not None:
                places += [case.end(), _end(text, case.end())]
                place = places[-1] + 1
            return [*places, _end(text, place) + 1]
        if sign[0] == "{":
            place = _end(text, place) + 1
    return []


def _end(text: str, place: int) -> int:
    """Return the place of the brace that closes what is open at a place. Raises `ValueError` if there is none."""
    depth = 1
    for sign in _SIGN.finditer(text, place):
        depth += {"{": 1, "}": -1}.get(sign[0], 0)
        if depth == 0:
            return int(sign.start())
    raise ValueError(text)
