"""What a model that writes English reads instead of French ordinals, times, amounts and abbreviations."""

import re
from typing import Final

from service.text.readings.rule import Rule, final_stop, words_rule
from service.text.readings.shorthand import shorthand_rules

_ROMAN: Final = {"I": 1, "V": 5, "X": 10}
_MONTHS: Final = "janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre"
_ORDINAL: Final = re.compile(
    r"\b(?:(?P<first>I)(?:er|ᵉʳ|re|ère)|(?P<roman>[IVX]+)(?:[eè]me|e|ᵉ)"
    rf"|(?P<number>\d{{1,3}})(?:er|ᵉʳ|re|ère|nde?|[eè]me|e|ᵉ))s?\b(?!['’]|\s(?i:{_MONTHS})\b)"
)
_FIRST_CENTURY: Final = re.compile(r"\s(?:siècle|arrondissement|empire|millénaire)", re.IGNORECASE)


def _ordinal(match: re.Match[str]) -> str | None:
    """Read XVIe and 16e as 16th."""
    # François Ier is a name.
    if match["first"] is not None and not _FIRST_CENTURY.match(match.string, match.end()):
        return None
    number = _arabic(match["roman"] or match["first"]) if match["number"] is None else int(match["number"])
    last = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{last}"


def _arabic(roman: str) -> int:
    values = [_ROMAN[letter] for letter in roman]
    return sum(-value if value < after else value for value, after in zip(values, [*values[1:], 0], strict=True))


_HOURS: Final = {
    "une": "one",
    "deux": "two",
    "trois": "three",
    "quatre": "four",
    "cinq": "five",
    "six": "six",
    "sept": "seven",
    "huit": "eight",
    "neuf": "nine",
    "dix": "ten",
    "onze": "eleven",
}
_NOON: Final = {"midi": "twelve", "minuit": "midnight"}
_MINUTES: Final = {
    "cinq": "five",
    "dix": "ten",
    "vingt": "twenty",
    "vingt-cinq": "twenty-five",
    "le quart": "a quarter",
}
_BEFORE: Final = r"(?P<before>\bà\s|\bil\sest\s)?"
_TO_THE_HOUR: Final = re.compile(
    rf"{_BEFORE}\b(?:(?P<hour>{'|'.join(_HOURS)})\sheures?|(?P<noon>midi|minuit))\smoins\s"
    rf"(?P<minutes>{'|'.join(sorted(_MINUTES, reverse=True))})\b(?!\sminutes)",
    re.IGNORECASE,
)
_PAST_NOON: Final = re.compile(rf"{_BEFORE}\bmidi\set\s(?P<minutes>quart|demie?)\b", re.IGNORECASE)
_TIME: Final = r"(?P<{0}hour>\d{{1,2}})\s?h(?:eures?)?(?:\s?(?P<{0}minute>[0-5]\d))?\b"
_TIME_RANGE: Final = re.compile(
    rf"(?<![\w.,:/-]){_TIME.format('from_')}(?P<to>\s?[-–—]\s?){_TIME.format('')}", re.IGNORECASE
)
_HALF_DAY: Final = re.compile(
    rf"(?<![\w.,:/-]){_TIME.format('')}\s(?P<half>du\smatin|du\ssoir|de\sl['’]après-midi)\b", re.IGNORECASE
)


def _to_the_hour(match: re.Match[str]) -> str:
    """Read huit heures moins le quart as a quarter to eight."""
    hour = _NOON[match["noon"].lower()] if match["hour"] is None else _HOURS[match["hour"].lower()]
    return f"{_before(match)}{_MINUTES[match['minutes'].lower()]} to {hour}"


def _past_noon(match: re.Match[str]) -> str:
    time = "a quarter past twelve" if match["minutes"].lower() == "quart" else "half past twelve"
    return _before(match) + time


def _before(match: re.Match[str]) -> str:
    """Return the English words for those before a time, which a model cannot translate beside English ones."""
    words = match["before"]
    return "" if words is None else {"à ": "at ", "À ": "At "}.get(words, "It's " if words[0] == "I" else "it's ")


def _time_range(match: re.Match[str]) -> str:
    """Read 9h-17h as 9h à 17h."""
    first, _, last = match[0].partition(match["to"])
    return f"{first} à {last}"


def _half_day(match: re.Match[str]) -> str | None:
    """Read 8h du soir as 20 h."""
    hour, half = int(match["hour"]), match["half"].lower()
    if not 1 <= hour <= 11:
        return None
    hour += 0 if half.endswith("matin") else 12
    return f"{hour} h {match['minute'] or ''}".rstrip()


_ERA: Final = re.compile(r"\b(?P<side>avant|av\.|après|apr\.|ap\.)\sJ\.?-?C\.?(?!\w)")
_PRICE: Final = re.compile(
    r"\b(?P<euros>\d+)\s?€\s?(?P<cents>\d\d)\b(?=$|[.,;:!?)]|\s(?:le|la|les|par|pour|au|et|pièce|chacune?|de\smoins|de\splus)\b)"
)
_ONE: Final = re.compile(r"(?<![\d.,])[01]$")
_LITRES: Final = re.compile(r"(?<=\d)\s?[lL](?=\sd(?:e\s|['’]))")
_COUPLE: Final = re.compile(r"\bM\. et Mme\b")
_DAYS: Final = {day[:3]: day for day in ("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche")}
_DAY_RANGE: Final = re.compile(
    rf"\b(?P<first>{'|'.join(_DAYS)})\.?(?P<between>\s?[-–—/]\s?|\s(?:au|à|et)\s)(?P<last>{'|'.join(_DAYS)})\b(?:\.(?=\s*\S))?",
    re.IGNORECASE,
)


def _era(match: re.Match[str]) -> str:
    return ("BC" if match["side"].startswith("av") else "AD") + final_stop(match)


def _day_range(match: re.Match[str]) -> str | None:
    between = match["between"].strip()
    if between.isalpha() and "." not in match[0]:  # la mer et Sam
        return None
    return f"{_DAYS[match['first'].lower()]} {between if between.isalpha() else 'au'} {_DAYS[match['last'].lower()]}"


_ABBREVIATIONS: Final = {
    "Mlle": "Miss",
    "c.-à-d.": "c'est-à-dire",
    "env.": "environ",
    "Env.": "Environ",
    "p. ex.": "par exemple",
}

FRENCH_FOR_ENGLISH: Final = (
    Rule(_ORDINAL, _ordinal, has_digits=False),
    Rule(_TO_THE_HOUR, _to_the_hour, has_digits=False),
    Rule(_PAST_NOON, _past_noon, has_digits=False),
    Rule(_TIME_RANGE, _time_range),
    Rule(_HALF_DAY, _half_day),
    Rule(_ERA, _era, has_digits=False),
    Rule(_PRICE, lambda match: f"{match['euros']},{match['cents']} €"),
    Rule(_LITRES, lambda match: " litre" if _ONE.search(match.string, 0, match.start()) else " litres"),
    Rule(_COUPLE, lambda _: "Mr. et Mrs.", has_digits=False),
    Rule(_DAY_RANGE, _day_range, has_digits=False),
    words_rule(_ABBREVIATIONS),
    *shorthand_rules("fr"),
)
