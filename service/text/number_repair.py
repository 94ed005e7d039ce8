"""Numbers of a translation, held against those of its sentence: models drop, double and swap digits.

A number that says what the sentence says stays as the model has written it, in the manner of its language: 1 234,5 for
1,234.5. One that is much like a number of the sentence and says something else becomes that number, as it is written
there. What is like none, the model has made of words, or converted: it stays.
"""

import copy
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import chain
from typing import Final, Self

import regex

from service.text.html.tag_placement import Aligned

# French has a space before a colon.
_MARK: Final = r"(?:[\s.,:/'’-]|\s:)"
_NUMBER: Final = regex.compile(rf"\d+(?:{_MARK}\d+)*+")
_UNFINISHED: Final = regex.compile(rf"{_NUMBER.pattern}{_MARK}?$")
# Marks between the digits of one and the same figure; others part figures, those of a date or a telephone number.
_GROUPING: Final = regex.compile(r"(?<=\d)(?:[.,'’]|\s(?=\d{3}(?!\d)))(?=\d)")
_FIGURE: Final = regex.compile(r"\d+")
# They are of another size in other languages: 120 million are 1.2亿.
_MULTIPLIERS: Final = regex.compile(
    r"[\s-]?(?:hundred|thousand|mill|[bt]r?illi|(?:k|m|bn|mn|mil|mio)\b|mrd|lakh|crore|тыс|млн|млрд|[百千万萬亿億兆천만억])",
    regex.IGNORECASE,
)
_ALIKE: Final = 0.7
_MOST_PARTS: Final = 3
"""Of a date or a time: other languages write them otherwise, figure by figure."""
_SHORTEST: Final = 3
"""Digits; a number of the translation that is shorter may be anything."""
_SHORTEST_MENDED: Final = 5
"""Digits of the sentence's; times, dates and small amounts other languages write anew, much like them."""
_LONGEST: Final = 50
"""Digits; what is longer is no number, and takes long to compare."""
_LONGEST_HELD: Final = 100  # characters

Figures = tuple[str, ...]


def _figures(number: str) -> Figures:
    """The digits of a number, without what marks their groups."""
    return tuple(_FIGURE.findall(_GROUPING.sub("", _plain(number))))


def _plain(number: str) -> str:
    return "".join(str(int(each)) if each.isdecimal() else each for each in number)


class Numbers:
    """Those of a sentence."""

    def __init__(self, sentence: str) -> None:
        found = [(each[0], each.end()) for each in _NUMBER.finditer(sentence)]
        self._figures = {number: _figures(number) for number, _ in found}
        exact = {"".join(self._figures[each]): each for each, end in found if not _MULTIPLIERS.match(sentence, end)}
        lengths = range(_SHORTEST_MENDED, _LONGEST + 1)
        self._spellings = {digits: number for digits, number in exact.items() if len(digits) in lengths}
        self._whole = {*self._figures.values()}
        short = chain.from_iterable(each for each in self._whole if len(each) <= _MOST_PARTS)
        self._parts = {spelled for figure in short for spelled in (figure, figure.lstrip("0"))}

    def __bool__(self) -> bool:
        return bool(self._figures)

    def mended(self, number: str) -> str:
        """A number of the translation, as it should be."""
        figures = _figures(number)
        digits = "".join(figures)
        is_vague = len(digits) < _SHORTEST and number == digits
        if is_vague or figures in self._whole or self._says_several(number):
            return number
        like = get_close_matches(digits, self._spellings, n=1, cutoff=_ALIKE)
        # Not all languages write a zero before a point.
        is_same = like and like[0] != digits and like[0].lstrip("0") == digits.lstrip("0")
        return self._spellings[like[0]] if like and not is_same else number

    def _says_several(self, number: str) -> bool:
        """Whether it is a part of a number, or numbers side by side or figures of a date, none of them twice."""
        return self._are_parts([_figures(part) for part in number.split()]) or self._are_parts(
            [(figure.lstrip("0") or figure,) for figure in _FIGURE.findall(_plain(number))]
        )

    def _are_parts(self, parts: Sequence[Figures]) -> bool:
        return len({*parts}) == len(parts) and all(
            part in self._whole or (len(part) == 1 and part[0] in self._parts) for part in parts
        )


class Mending:
    """Mends the numbers of a translation that comes part by part: holds a number back until it has ended."""

    def __init__(self, sentence: str) -> None:
        self._numbers = Numbers(sentence)
        self._held: Sequence[Aligned] = ()

    def copy(self) -> Self:
        return copy.copy(self)

    def push(self, part: Aligned) -> Sequence[Aligned]:
        """What can be written now."""
        if not self._numbers:
            return [part]
        parts = [*self._held, part]
        text = "".join(each.text for each in parts)
        unfinished = _UNFINISHED.search(text)
        end = unfinished.start() if unfinished and len(unfinished[0]) <= _LONGEST_HELD else len(text)
        self._held = [*_cut(parts, end, len(text))]
        return [*self._mended([*_cut(parts, 0, end)])]

    def flush(self) -> Sequence[Aligned]:
        """What was held back."""
        held, self._held = self._held, ()
        return [*self._mended(held)]

    def _mended(self, parts: Sequence[Aligned]) -> Iterator[Aligned]:
        done = 0
        for found in _NUMBER.finditer("".join(part.text for part in parts)):
            number = self._numbers.mended(found[0])
            if number != found[0]:
                yield from _cut(parts, done, found.start())
                first = next(_cut(parts, *found.span()))
                yield first._replace(text=number)
                done = found.end()
        yield from _cut(parts, done, sum(len(part.text) for part in parts))


def _cut(parts: Sequence[Aligned], start: int, end: int) -> Iterator[Aligned]:
    """The characters from `start` up to `end`."""
    for part in parts:
        if text := part.text[max(start, 0) : max(end, 0)]:
            yield part._replace(text=text)
        start, end = start - len(part.text), end - len(part.text)
