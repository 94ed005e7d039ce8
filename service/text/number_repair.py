"""Repair of numbers in a translation: models drop, double and swap digits.

A number with the value of one in the sentence stays as the model wrote it, in the style of its language: 1 234,5 for
1,234.5. One with the same digits and wrong separators, such as 1,234,5, gets those of its language. A number that is
similar to one in the sentence but has other digits is replaced by that one, as the sentence writes it. A number similar
to none stays: the model made it of words, or converted it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from difflib import get_close_matches
from functools import cache
from itertools import chain
from typing import Final, NamedTuple

import regex
from babel import Locale, UnknownLocaleError
from babel.numbers import get_decimal_symbol, get_group_symbol

from service.text.segment import Aligned

_GROUP_SEPARATORS: Final = r"\s'’"
"""Separators of groups in every language; those of CLDR, by Babel, are added for each."""


class NumberValue(NamedTuple):
    """The value of a number: the digits before and after its decimal separator."""

    whole: str
    fraction: str


class NumberFormat:
    """The number format of one language."""

    def __init__(self, decimal: str, group: str) -> None:
        groups = f"[{_GROUP_SEPARATORS}{regex.escape(group)}]"
        self._decimal, self._group = decimal, group
        # All groups of a number have the same separator. Indian groups have two digits: 12,34,567.
        grouped = rf"[0-9]{{1,3}}(?P<group>{groups})[0-9]{{3}}(?:(?P=group)[0-9]{{3}})*"
        whole = rf"{grouped}|[0-9]{{1,2}}(?:,[0-9]{{2}})+,[0-9]{{3}}|[0-9]+"
        self._pattern = regex.compile(rf"(?P<whole>{whole})(?:{regex.escape(decimal)}(?P<fraction>[0-9]+))?")

    def value(self, number: str) -> NumberValue | None:
        """Return the value of a number in ASCII digits; None if the number does not have this format."""
        found = self._pattern.fullmatch(number)
        if found is None or (found["group"] and number.startswith("0")):  # a telephone number
            return None
        return NumberValue(regex.sub("[^0-9]", "", found["whole"]), found["fraction"] or "")

    def write(self, value: NumberValue, *, grouped: bool) -> str:
        """Write a number, in groups of three digits if it is `grouped`."""
        whole = f"{int(value.whole):,}".replace(",", self._group) if grouped else value.whole
        return f"{whole}{self._decimal}{value.fraction}" if value.fraction else whole


@cache
def number_format(language: str) -> NumberFormat | None:
    """Return the number format of a language; None if it is unknown."""
    try:
        locale = Locale.parse(language, sep="-")
    except (UnknownLocaleError, ValueError):
        return None
    return NumberFormat(get_decimal_symbol(locale), get_group_symbol(locale))


# French has a space before a colon.
_SEPARATOR: Final = r"(?:[\s.,:/'’-]|\s:)"
_NUMBER: Final = regex.compile(rf"\d+(?:{_SEPARATOR}\d+)*+")
_UNFINISHED: Final = regex.compile(rf"{_NUMBER.pattern}{_SEPARATOR}?$")
# Separators within one figure; other separators are between figures, as in a date or a telephone number.
_GROUPING: Final = regex.compile(r"(?<=\d)(?:[.,'’]|\s(?=\d{3}(?!\d)))(?=\d)")
_JOINED: Final = regex.compile(r"\d+(?:,\d+)+")
_PADDED: Final = regex.compile(r"(?<!:)\b0[1-9]\b")
_MINUTES: Final = regex.compile(r"(?<=\d:)\d\d\b")
_FIGURE: Final = regex.compile(r"\d+")
_DIGIT: Final = regex.compile(r"\d")
# Their size differs between languages: 120 million are 1.2亿.
_MULTIPLIERS: Final = regex.compile(
    r"[\s-]?(?:hundred|thousand|mill|[bt]r?illi|(?:k|m|bn|mn|mil|mio)\b|mrd|lakh|crore|тыс|млн|млрд|[百千万萬亿億兆천만억])",
    regex.IGNORECASE,
)
_ALIKE: Final = 0.7
_MOST_PARTS: Final = 3
"""The figures of a date or a time, which other languages reorder."""
_SHORTEST: Final = 3
"""Digits; a shorter number in the translation may mean anything."""
_SHORTEST_REPAIRED: Final = 5
"""Digits of the number in the sentence; languages rewrite times, dates and small amounts in similar digits."""
_LONGEST: Final = 50
"""Digits; longer digit strings are not numbers, and take long to compare."""
_LONGEST_HELD: Final = 100  # characters

_TWO_SEPARATORS: Final = regex.compile(r"\d{1,3}(?:([.,])\d{3})(?:\1\d{3})*(?!\1)[.,]\d+")
_ANY_FORMATS: Final = (NumberFormat(",", "."), NumberFormat(".", ","))
"""The formats of numbers with both separators, which say in every language which of them is which."""

Figures = tuple[str, ...]


def _figures(number: str) -> Figures:
    """Return the figures of a number, without group separators."""
    return tuple(_FIGURE.findall(_GROUPING.sub("", _ascii_digits(number))))


def _ascii_digits(number: str) -> str:
    return "".join(str(int(each)) if each.isdecimal() else each for each in number)


class SentenceNumbers:
    """The numbers of a sentence, against which numbers of its translation are checked."""

    def __init__(self, sentence: str, languages: tuple[str, str]) -> None:
        """`languages` are those of the sentence and its translation."""
        source_format, self._format = map(number_format, languages)
        found = [(each[0], each.end()) for each in _NUMBER.finditer(sentence)]
        self._figures = {number: _figures(number) for number, _ in found}
        multiplied = {number for number, end in found if _MULTIPLIERS.match(sentence, end)}
        exact = {"".join(self._figures[each]): each for each in self._figures if each not in multiplied}
        lengths = range(_SHORTEST_REPAIRED, _LONGEST + 1)
        self._spellings = {digits: number for digits, number in exact.items() if len(digits) in lengths}
        self._telephones: dict[Figures, str] = {
            each: number for number, each in self._figures.items() if each[0][0] == "0" and len(each[0]) in lengths
        }
        self._values = self._exact_values(source_format, {self._figures[each] for each in multiplied})
        self._whole = {*self._figures.values()}
        short = chain.from_iterable(each for each in self._whole if len(each) <= _MOST_PARTS)
        self._parts = {spelled for figure in short for spelled in (figure, figure.lstrip("0"))}

    def repair(self, number: str) -> str:
        """Return a number of the translation, repaired if it is wrong."""
        figures = _figures(number)
        digits = "".join(figures)
        is_vague = len(digits) < _SHORTEST and number == digits
        if is_vague:
            return number
        if figures in self._whole:
            return self._with_its_value(number, figures)
        if self._is_made_of_parts(number):
            # No language joins the figures of a date with a comma: "T3 2021" became "T3,2021".
            return number.replace(",", " ") if _JOINED.fullmatch(number) else number
        similar = get_close_matches(digits, self._spellings, n=1, cutoff=_ALIKE)
        # Not all languages write a zero before a decimal point.
        is_same = similar and similar[0] != digits and similar[0].lstrip("0") == digits.lstrip("0")
        return self._spellings[similar[0]] if similar and not is_same else number

    def _exact_values(
        self, format: NumberFormat | None, multiplied: Set[Figures]
    ) -> dict[Figures, tuple[NumberValue, str]]:
        """Map figures to the value and the spelling of the only number in the sentence that has them."""
        spellings = Counter(self._figures.values())
        values: dict[Figures, tuple[NumberValue, str]] = {}
        for number, figures in self._figures.items():
            if format is not None and spellings[figures] == 1 and figures not in multiplied:
                spelled = _ascii_digits(number)
                foreign = (each.value(spelled) for each in _ANY_FORMATS if _TWO_SEPARATORS.fullmatch(spelled))
                value = format.value(spelled) or next(filter(None, foreign), None)
                if value is not None:
                    values[figures] = value, number
        return values

    def _with_its_value(self, number: str, figures: Figures) -> str:
        """Return a number whose digits are in the sentence, with the target language's separators if its value differs.

        A number that is spelled as in the sentence stays if the language cannot read it: 3.10 may be a version.
        """
        format = self._format
        if format is None or figures not in self._values:
            return self._telephones.get(figures, number)
        exact, spelling = self._values[figures]
        value = format.value(_ascii_digits(number))
        if value == exact or (value is None and number == spelling):
            return number
        is_grouped = len(spelling) > sum(map(len, exact)) + bool(exact.fraction)
        return format.write(exact, grouped=is_grouped)

    def _is_made_of_parts(self, number: str) -> bool:
        """Return True for several of the sentence's numbers side by side, or for figures of a date, each only once."""
        return self._are_parts([_figures(part) for part in number.split()]) or self._are_parts(
            [(figure.lstrip("0") or figure,) for figure in _FIGURE.findall(_ascii_digits(number))]
        )

    def _are_parts(self, parts: Sequence[Figures]) -> bool:
        return len({*parts}) == len(parts) and all(
            part in self._whole or (len(part) == 1 and part[0] in self._parts) for part in parts
        )


class NumberRepair:
    """Repairs the numbers of a streamed translation; each number is held back until it is complete."""

    def __init__(self, read: str, languages: tuple[str, str], sentence: str | None = None) -> None:
        """`languages` are those of the sentence and its translation, `read` is what a model reads for the sentence."""
        self._numbers = SentenceNumbers(read, languages) if _DIGIT.search(read) else None
        # A model reads 05 h for 5 a.m.; its readers want 5 h.
        self._padded = {*_PADDED.findall(read)}.difference(_PADDED.findall(sentence or read), _MINUTES.findall(read))
        self._held: Sequence[Aligned] = ()

    @property
    def is_needed(self) -> bool:
        """True if the sentence has numbers; if False, `push` returns every part unchanged."""
        return self._numbers is not None

    @property
    def holds_text(self) -> bool:
        """True while a number may go on."""
        return bool(self._held)

    def push(self, part: Aligned) -> Sequence[Aligned]:
        """Add a part of the translation and return the parts that are final."""
        if self._numbers is None:
            return [part]
        parts = [*self._held, part]
        text = "".join(each.text for each in parts)
        unfinished = _UNFINISHED.search(text)
        end = unfinished.start() if unfinished and len(unfinished[0]) <= _LONGEST_HELD else len(text)
        self._held = [*_slice(parts, end, len(text))]
        return [*self._repaired([*_slice(parts, 0, end)])]

    def flush(self) -> Sequence[Aligned]:
        """Return the parts that were held back."""
        held, self._held = self._held, ()
        return [*self._repaired(held)] if held else ()

    def _repaired(self, parts: Sequence[Aligned]) -> Iterator[Aligned]:
        assert self._numbers is not None
        done = 0
        for found in _NUMBER.finditer("".join(part.text for part in parts)):
            number = self._numbers.repair(found[0])
            if number[:2] in self._padded:
                number = number[1:]
            if number != found[0]:
                yield from _slice(parts, done, found.start())
                first = next(_slice(parts, *found.span()))
                yield first._replace(text=number)
                done = found.end()
        yield from _slice(parts, done, sum(len(part.text) for part in parts))


def _slice(parts: Sequence[Aligned], start: int, end: int) -> Iterator[Aligned]:
    """Yield the characters from `start` to `end`."""
    for part in parts:
        if text := part.text[max(start, 0) : max(end, 0)]:
            yield part._replace(text=text)
        start, end = start - len(part.text), end - len(part.text)
