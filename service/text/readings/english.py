"""English times, dates, amounts and abbreviations, as a model that writes French reads them."""

import re
from typing import Final

from service.text.readings import english_dates as dates
from service.text.readings import english_times as times
from service.text.readings.rule import Rule, final_stop, words_rule
from service.text.readings.shorthand import shorthand_rules

_DOLLARS: Final = {
    "US": "US",
    "CA": "Canadian",
    "C": "Canadian",
    "AU": "Australian",
    "A": "Australian",
    "NZ": "New Zealand",
    "HK": "Hong Kong",
}
_MAGNITUDES: Final = {
    "m": "million",
    "M": "million",
    "mn": "million",
    "B": "billion",
    "bn": "billion",
    "tn": "trillion",
}
_THOUSANDS: Final = ("k", "K")
_AMOUNT: Final = (
    rf"(?P<number>\d+(?:[.,]\d+)*)(?:(?:\s(?=\w\w))?(?P<size>{'|'.join([*_MAGNITUDES, *_THOUSANDS])}|[mbtr]+illion)\b)?"
    r"(?!\w|[.,]\d|\s?[-–—]\s?[$£€]?\d)"
)
_FOREIGN_DOLLARS: Final = re.compile(
    rf"\b(?P<country>{'|'.join(_DOLLARS)})\$\s?{_AMOUNT}|(?<!\w)\$\s?(?P<us>\d+(?:[.,]\d+)*)\sUS\b(?!\s[a-z])"
)
_LARGE_AMOUNT: Final = re.compile(rf"(?<![\w–—-])(?P<sign>[$£€])\s?{_AMOUNT}")
_SHORT_UNITS: Final = {"hr": "hour", "lb": "pound", "min": "minute", "mo": "month", "yr": "year"}
_PER: Final = re.compile(
    r"(?<!\w)(?P<amount>[$£€]\d+(?:[.,]\d+)*)\s?/\s?"
    rf"(?P<unit>{'|'.join(_SHORT_UNITS)}|day|hour|kg|km|mile|litre|liter|minute|month|night|person|user|week|year)\b"
)
_UNITS: Final = {
    "ft": ("foot", "feet"),
    "lb": ("pound", "pounds"),
    "lbs": ("pound", "pounds"),
    "yr": ("year", "years"),
    "yrs": ("year", "years"),
    "hr": ("hour", "hours"),
    "hrs": ("hour", "hours"),
    "wks": ("week", "weeks"),
    "mos": ("month", "months"),
    # The models do not know the English words.
    "tbsp": ("cuillère à soupe", "cuillères à soupe"),
    "tsp": ("cuillère à café", "cuillères à café"),
    "tablespoon": ("cuillère à soupe", "cuillères à soupe"),
    "tablespoons": ("cuillère à soupe", "cuillères à soupe"),
    "teaspoon": ("cuillère à café", "cuillères à café"),
    "teaspoons": ("cuillère à café", "cuillères à café"),
}
_MEASURE: Final = re.compile(
    rf"(?P<number>(?<![\d.,/])\d+(?:[.,/]\d+)?)\s?(?P<unit>{'|'.join(sorted(_UNITS, reverse=True))})\b"
    r"(?!-|\.\s[A-Z]|\.?\s\d)(?P<stop>\.?)(?!\w)"
    r"(?P<before_noun>\s(?:of\s)?(?=[a-z])(?!(?:a|after|an|and|as|at|before|daily|each|every|for|from|if|in|is|on|once|or|per|the|to|twice"
    r"|when|with)\b))?"
)
_FEET_AND_INCHES: Final = re.compile(
    r"(?<![\d.,°])(?P<feet>\d)(?:\s?ft\.?\s|\sfeet\s|['’′])(?P<inches>1[01]|\d)(?:\s?in\b|\sinches\b|[\"”″])"
)
_DECADE: Final = re.compile(r"(?<!\w)['’](?=[3-9]0s\b)")
# Chanel No. 5 is a name.
_NUMBER: Final = re.compile(r"^(?P<word>Nos?)\.\s?(?=\d+(?:$|[,:;.)]|\s(?:and|in|is|of|on|was)\b))")
_PARTS: Final = {"Ch": "Chapter", "ch": "chapter", "Vol": "Volume", "vol": "volume"}
_PART: Final = re.compile(rf"\b(?P<word>{'|'.join(_PARTS)})\.(?=\s(?:\d{{1,3}}|[IVX]+)(?:$|[,.;:)]))")
_LIMIT: Final = re.compile(r"(?<!\d\s)\b(?P<word>[Mm]ax|[Mm]in)\.(?=\s\d)")
_FOUNDED: Final = re.compile(r"\b[Ee]st\.\s(?=[12]\d{3}(?:$|[.,;:)]))")
_BC: Final = re.compile(
    r"(?<=\d)(?<![A-Z]\d)\s?B\.?C\.?(?:E\b\.?)?(?=$|[.,;:)]|\s(?:and|at|by|he|in|or|she|the|to|when)\b)"
)


def _dollars(match: re.Match[str]) -> str | None:
    if match["us"] is not None:
        return f"{match['us']} US dollars"
    number = match["number"]
    if match["size"] in _THOUSANDS:
        thousands = _thousands(number)
        return thousands and f"{thousands} {_DOLLARS[match['country']]} dollars"
    return " ".join(filter(None, (number, _magnitude(match), _DOLLARS[match["country"]], "dollars")))


def _large_amount(match: re.Match[str]) -> str | None:
    if match["size"] in _THOUSANDS:
        thousands = _thousands(match["number"])
        return thousands and match["sign"] + thousands
    if match["size"] not in _MAGNITUDES:
        return None
    if match["sign"] == "£":
        return f"{match['number']} {_magnitude(match)} pounds"
    return f"{match['sign']}{match['number']} {_magnitude(match)}"


def _thousands(number: str) -> str | None:
    """Return a number of thousands as a number."""
    whole, _, fraction = number.partition(".")
    if "," in number or "." in fraction or len(fraction) > 3:
        return None
    return f"{int(whole + fraction.ljust(3, '0')):,}"


def _magnitude(match: re.Match[str]) -> str | None:
    size: str | None = match["size"]
    return _MAGNITUDES.get(size or "", size)


def _measure(match: re.Match[str]) -> str | None:
    number, unit, noun = match["number"], match["unit"], match["before_noun"] or ""
    one, many = _UNITS[unit]
    if unit in ("ft", "lb", "lbs") and number == "1":
        return None
    if noun and "cuillère" in one:
        noun = " of "
    stop = final_stop(match) if match["stop"] and not noun else ""
    return f"{number} {one if number == '1' or '/' in number else many}{noun or stop}"


_ABBREVIATIONS: Final = {
    "approx.": "about",
    "Approx.": "About",
    "b/c": "because",
    "Dept.": "Department",
    "dept.": "department",
    "E.U.": "EU",
    "i.e.": "that is",
    "(i.e.": "(that is to say,",
    "I.e.": "That is",
    "incl.": "including",
    "Tel.": "Phone",
    "U.K.": "UK",
    "U.N.": "UN",
    "U.S.A.": "USA",
    "vs.": "against",
    "w/": "with",
    "w/o": "without",
}

ENGLISH_FOR_FRENCH: Final = (
    Rule(times.CLOCK, times.clock),
    Rule(times.SPOKEN, times.spoken, has_digits=False),
    Rule(dates.CENTURY, dates.century, has_digits=False),
    Rule(dates.MONTH_AND_DAY, dates.month_and_day),
    Rule(dates.SHORT_MONTH, dates.short_month),
    Rule(dates.LATER_IN_A_SENTENCE, dates.later_in_a_sentence, has_digits=False),
    Rule(dates.MONTH_RANGE, dates.month_range, has_digits=False),
    Rule(dates.DAYS, dates.days, has_digits=False),
    Rule(dates.ONE_DAY, dates.one_day, has_digits=False),
    Rule(dates.ORDINAL, lambda match: f"{match['number']}e"),
    Rule(_FOREIGN_DOLLARS, _dollars),
    Rule(_LARGE_AMOUNT, _large_amount),
    Rule(_PER, lambda match: f"{match['amount']} per {_SHORT_UNITS.get(match['unit'], match['unit'])}"),
    Rule(_FEET_AND_INCHES, lambda match: f"{match['feet']} pieds {match['inches']} pouces"),
    Rule(_MEASURE, _measure),
    Rule(_DECADE, lambda _: "19"),
    Rule(_NUMBER, lambda match: "Number" + match["word"][2:] + " "),
    Rule(_PART, lambda match: _PARTS[match["word"]]),
    Rule(_LIMIT, lambda match: match["word"] + "imum"),
    Rule(_FOUNDED, lambda _: "founded in "),
    Rule(_BC, lambda _: " av. J.-C."),
    words_rule(_ABBREVIATIONS),
    *shorthand_rules("en"),
)
