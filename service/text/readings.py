"""Spellings that small models garble, and what a model reads instead of them.

Of 8 p.m. a model makes "8 h" in French, or "19 heures"; "20 h" it copies. The sentence itself stays as it is.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from service.text.shorthand import IN_CAPITALS, SHORTHAND


class Reading(NamedTuple):
    """The text that a model reads for characters `start` to `end` of a sentence."""

    start: int
    end: int
    text: str


_Read = Callable[[re.Match[str]], str | None]
"""A function that returns what is read for a match; None if the match is read as it stands."""


@lru_cache(maxsize=64)  # the readings of a sentence are needed for its length, its tokens and its numbers
def readings(sentence: str, languages: tuple[str, str]) -> Sequence[Reading]:
    """Return what a model reads differently in a sentence, in its order, without overlaps.

    `languages` are those of the sentence and its translation, as codes of BCP 47.
    """
    source, target = (language.partition("-")[0] for language in languages)
    rules = _RULES.get((source, target), ())
    found = sorted(reading for pattern, read in rules for reading in _found(pattern, read, sentence))
    return [each for number, each in enumerate(found) if number == 0 or each.start >= found[number - 1].end]


def _found(pattern: re.Pattern[str], read: _Read, sentence: str) -> Iterator[Reading]:
    for match in pattern.finditer(sentence):
        if (text := read(match)) is not None:
            yield Reading(match.start(), match.end(), text)


_HOURS: Final = "one two three four five six seven eight nine ten eleven twelve".split()
_MINUTES: Final = {"five": 5, "ten": 10, "quarter": 15, "a quarter": 15, "twenty": 20, "twenty-five": 25, "half": 30}
_HALF_DAY: Final = r"\s?(?P<half>[ap])(?:m\b|\.\s?m\b\.?)"
_TIME: Final = r"(?P<hour>\d{1,2})(?:[:.](?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?)?"
_FROM: Final = r"(?P<from_hour>\d{1,2})(?:[:.](?P<from_minute>[0-5]\d))?(?P<to>\s?[-–—]\s?|\sto\s)"
_CLOCK: Final = re.compile(rf"(?<![\w.,:/$£€])(?<!\d[-–])(?:{_FROM})?{_TIME}{_HALF_DAY}", re.IGNORECASE)
_SPOKEN: Final = re.compile(
    rf"\b(?P<minutes>{'|'.join(_MINUTES)})\s(?P<side>past|to)\s(?P<hour>{'|'.join(_HOURS)}|1[0-2]|[1-9])\b"
    rf"(?:{_HALF_DAY})?",
    re.IGNORECASE,
)
_LONGEST_BEFORE: Final = len(" around ")
_BEFORE_TIME: Final = re.compile(r"\b(?:at|by|is|it['’]s|until|till|from|before|after|about|around)\s$", re.IGNORECASE)


def _clock(match: re.Match[str]) -> str | None:
    """Read a time of 12 hours, or a range of two, as times of 24 hours in the French manner: 20 h, 20:30."""
    hour, is_late = int(match["hour"]), match["half"] in "pP"
    begins = None if match["from_hour"] is None else int(match["from_hour"])
    if not 1 <= hour <= 12 or (begins is not None and not 1 <= begins <= 12):
        return None
    text = _time(_of_day(hour, is_late=is_late), match["minute"], match["second"])
    if begins is not None:
        # 2-5 pm are both in the afternoon, 9-5 pm are not.
        is_same_half = begins % 12 < hour % 12
        text = _time(_of_day(begins, is_late=is_late == is_same_half), match["from_minute"]) + match["to"] + text
    return text + _final_stop(match)


def _spoken(match: re.Match[str]) -> str | None:
    """Read a quarter to nine as 8:45."""
    if not _BEFORE_TIME.search(match.string, max(match.start() - _LONGEST_BEFORE, 0), match.start()):
        return None
    named = match["hour"].lower()
    hour = int(named) if named.isdecimal() else _HOURS.index(named) + 1
    minutes = _MINUTES[match["minutes"].lower()]
    if match["half"] is not None:
        hour = _of_day(hour, is_late=match["half"] in "pP")
    past = hour * 60 + (minutes if match["side"].lower() == "past" else -minutes)
    past += 12 * 60 if past < 60 and match["half"] is None else 0
    return _time(past // 60 % 24, f"{past % 60:02}") + _final_stop(match)


def _of_day(hour: int, *, is_late: bool) -> int:
    return hour % 12 + 12 * is_late


def _time(hour: int, minute: str | None, second: str | None = None) -> str:
    if second is not None:
        return f"{hour}:{minute}:{second}"
    if minute not in (None, "00"):
        return f"{hour:02}:{minute}" if hour == 0 else f"{hour}:{minute}"
    return f"{hour} h" if hour > 0 else "midnight"


def _final_stop(match: re.Match[str]) -> str:
    """Return the full stop of a sentence that ends with that of p.m."""
    rest = match.string[match.end() :]
    is_last = match[0].endswith(".") and not re.search(r"^[?!,;:)]|\w", rest)
    return "." if is_last else ""


_DOLLARS: Final = {
    "US": "US",
    "CA": "Canadian",
    "C": "Canadian",
    "AU": "Australian",
    "A": "Australian",
    "NZ": "New Zealand",
    "HK": "Hong Kong",
}
_MAGNITUDES: Final = {"m": "million", "mn": "million", "bn": "billion", "tn": "trillion"}
_AMOUNT: Final = rf"(?P<number>\d+(?:[.,]\d+)*)(?:\s?(?P<size>{'|'.join(_MAGNITUDES)}|[mbtr]+illion)\b)?"
_FOREIGN_DOLLARS: Final = re.compile(rf"\b(?P<country>{'|'.join(_DOLLARS)})\$\s?{_AMOUNT}")
_LARGE_AMOUNT: Final = re.compile(rf"(?<!\w)(?P<sign>[$£€])\s?{_AMOUNT}")


def _dollars(match: re.Match[str]) -> str:
    return " ".join(filter(None, (match["number"], _magnitude(match), _DOLLARS[match["country"]], "dollars")))


def _large_amount(match: re.Match[str]) -> str | None:
    if match["size"] not in _MAGNITUDES:
        return None
    return f"{match['sign']}{match['number']} {_magnitude(match)}"


def _magnitude(match: re.Match[str]) -> str | None:
    size: str | None = match["size"]
    return _MAGNITUDES.get(size or "", size)


_ROMAN: Final = {"I": 1, "V": 5, "X": 10}
_MONTHS: Final = "janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre"
_ORDINAL: Final = re.compile(
    r"\b(?:(?P<first>I)(?:er|ᵉʳ|re|ère)|(?P<roman>[IVX]+)(?:[eè]me|e|ᵉ)"
    rf"|(?P<number>\d{{1,3}})(?:er|ᵉʳ|re|ère|nde?|[eè]me|e|ᵉ))s?\b(?!['’]|\s(?:{_MONTHS})\b)"
)
_FIRST_CENTURY: Final = re.compile(r"\s(?:siècle|arrondissement|empire|millénaire)", re.IGNORECASE)
_FRENCH_HOURS: Final = dict(zip("une deux trois quatre cinq six sept huit neuf dix onze".split(), _HOURS, strict=False))
_NOON: Final = {"midi": "twelve", "minuit": "midnight"}
_FRENCH_MINUTES: Final = {
    "cinq": "five",
    "dix": "ten",
    "vingt": "twenty",
    "vingt-cinq": "twenty-five",
    "le quart": "a quarter",
}
_TO_THE_HOUR: Final = re.compile(
    rf"\b(?:(?P<hour>{'|'.join(_FRENCH_HOURS)})\sheures?|(?P<noon>midi|minuit))\smoins\s"
    rf"(?P<minutes>{'|'.join(sorted(_FRENCH_MINUTES, reverse=True))})\b",
    re.IGNORECASE,
)
_PAST_NOON: Final = re.compile(r"\bmidi\set\s(?P<minutes>quart|demie?)\b", re.IGNORECASE)
_ERA: Final = re.compile(r"\b(?P<side>avant|av\.|après|apr\.|ap\.)\sJ\.?-?C\.?(?!\w)")


def _ordinal(match: re.Match[str]) -> str | None:
    """Read XVIe and 16e as 16th."""
    # François Ier is a name.
    if match["first"] is not None and not _FIRST_CENTURY.match(match.string, match.end()):
        return None
    number = _arabic(match["roman"] or match["first"]) if match["number"] is None else int(match["number"])
    last = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{last}"


def _to_the_hour(match: re.Match[str]) -> str:
    """Read huit heures moins le quart as a quarter to eight."""
    hour = _NOON[match["noon"].lower()] if match["hour"] is None else _FRENCH_HOURS[match["hour"].lower()]
    return f"{_FRENCH_MINUTES[match['minutes'].lower()]} to {hour}"


def _past_noon(match: re.Match[str]) -> str:
    return "a quarter past twelve" if match["minutes"].lower() == "quart" else "half past twelve"


def _arabic(roman: str) -> int:
    values = [_ROMAN[letter] for letter in roman]
    return sum(-value if value < after else value for value, after in zip(values, [*values[1:], 0], strict=True))


def _era(match: re.Match[str]) -> str:
    return ("BC" if match["side"].startswith("av") else "AD") + _final_stop(match)


def _shorthand(language: str) -> tuple[re.Pattern[str], _Read]:
    """Return the rule for a language's shorthand."""
    words = SHORTHAND[language]
    spellings = {
        spelled: words[word]
        for word in words
        for spelled in (word, word.upper())
        if spelled == word or word in IN_CAPITALS
    }
    spellings |= {word.capitalize(): full[0].upper() + full[1:] for word, full in words.items()}
    longest_first = "|".join(map(re.escape, sorted(spellings, key=len, reverse=True)))
    return re.compile(rf"(?<![\w@#/.'’&-])(?:{longest_first})(?![\w@/'’&-]|\.\w)"), lambda match: spellings[match[0]]


_RULES: Final[Mapping[tuple[str, str], Sequence[tuple[re.Pattern[str], _Read]]]] = {
    ("en", "fr"): [
        (_CLOCK, _clock),
        (_SPOKEN, _spoken),
        (_FOREIGN_DOLLARS, _dollars),
        (_LARGE_AMOUNT, _large_amount),
        _shorthand("en"),
    ],
    ("fr", "en"): [
        (_ORDINAL, _ordinal),
        (_TO_THE_HOUR, _to_the_hour),
        (_PAST_NOON, _past_noon),
        (_ERA, _era),
        _shorthand("fr"),
    ],
}
