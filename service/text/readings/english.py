"""What a model that writes French reads instead of English times, dates, amounts and abbreviations."""

import re
from typing import Final

from service.text.readings.rule import Rule, final_stop, words_rule
from service.text.readings.shorthand import shorthand_rules

_HOURS: Final = "one two three four five six seven eight nine ten eleven twelve".split()
_MINUTES: Final = {"five": 5, "ten": 10, "quarter": 15, "a quarter": 15, "twenty": 20, "twenty-five": 25, "half": 30}
_HALF_DAY: Final = r"\s?(?P<half>[ap])(?:m\b|\.\s?m\b\.?)"
_TIME: Final = r"(?P<hour>\d{1,2})(?:[:.](?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?)?"
_FROM: Final = r"(?P<from_hour>\d{1,2})(?:[:.](?P<from_minute>[0-5]\d))?(?P<to>\s?[-–—]\s?|\s(?:to|and|or)\s)"
_CLOCK: Final = re.compile(rf"(?<![\w.,:/$£€])(?<!\d[-–])(?:{_FROM})?{_TIME}{_HALF_DAY}", re.IGNORECASE)
_SPOKEN: Final = re.compile(
    rf"\b(?P<minutes>{'|'.join(_MINUTES)})\s(?P<side>past|to)\s(?P<hour>{'|'.join(_HOURS)}|1[0-2]|[1-9])\b"
    rf"(?:{_HALF_DAY})?",
    re.IGNORECASE,
)
_LISTED_BEFORE: Final = re.compile(
    r"(?:\d,|\b(?:January|February|March|April|May|June|July|August|September|October|November|December))\s$"
)
_NUMBERED_BEFORE: Final = re.compile(r"\b(?:chapter|channel|version|page|room|section|station)\s$", re.IGNORECASE)
_TITLE: Final = re.compile(r"PM\s[A-Z][a-z]")
_LONGEST_BEFORE: Final = len(" around ")
_SPAN_AFTER: Final = re.compile(r"\s(?!in\b|on\b|when\b|and\b|or\b|today\b|tomorrow\b|tonight\b|sharp\b)[\w$€£]")
_BEFORE_SPAN: Final = re.compile(r"\b(?:is|by|from|before|after|about|around)\s$", re.IGNORECASE)
_BEFORE_TIME: Final = re.compile(r"\b(?:at|by|is|it['’]s|until|till|from|before|after|about|around)\s$", re.IGNORECASE)


def _clock(match: re.Match[str]) -> str | None:
    """Read a time of 12 hours, or a range of two, as times of 24 hours: 20 h, 20:30, 05 h.

    A model makes 14 h of 5 h, but not of 05 h.
    """
    hour, is_late = int(match["hour"]), match["half"] in "pP"
    begins = None if match["from_hour"] is None else int(match["from_hour"])
    if not 1 <= hour <= 12 or (begins is not None and not 1 <= begins <= 12):
        return None
    if _NUMBERED_BEFORE.search(match.string, 0, match.start()) or _TITLE.match(match.string, match.start("half")):
        return None
    if begins is not None and (_LISTED_BEFORE.search(match.string, 0, match.start()) or (hour == 12 and not is_late)):
        return None
    text = _time(_of_day(hour, is_late=is_late), match["minute"], match["second"])
    if begins is not None:
        # 2-5 pm are both in the afternoon, 9-5 pm are not.
        is_same_half = begins % 12 < hour % 12
        text = _time(_of_day(begins, is_late=is_late == is_same_half), match["from_minute"]) + match["to"] + text
    return text + final_stop(match)


def _spoken(match: re.Match[str]) -> str | None:
    """Read a quarter to nine as 08:45."""
    before = match.string[max(match.start() - _LONGEST_BEFORE, 0) : match.start()]
    if not _BEFORE_TIME.search(before):
        return None
    # About ten to twelve hours, or a quarter to nine people.
    if match["side"].lower() == "to" and match["half"] is None:
        is_quarter = match["minutes"].lower().endswith("quarter")
        if _SPAN_AFTER.match(match.string, match.end()) or (not is_quarter and _BEFORE_SPAN.search(before)):
            return None
    named = match["hour"].lower()
    hour = int(named) if named.isdecimal() else _HOURS.index(named) + 1
    minutes = _MINUTES[match["minutes"].lower()]
    if match["half"] is not None:
        hour = _of_day(hour, is_late=match["half"] in "pP")
    past = hour * 60 + (minutes if match["side"].lower() == "past" else -minutes)
    past += 12 * 60 if past < 60 and match["half"] is None else 0
    return _time(past // 60 % 24, f"{past % 60:02}") + final_stop(match)


def _of_day(hour: int, *, is_late: bool) -> int:
    return hour % 12 + 12 * is_late


def _time(hour: int, minute: str | None, second: str | None = None) -> str:
    if second is not None:
        return f"{hour:02}:{minute}:{second}"
    if minute not in (None, "00"):
        return f"{hour:02}:{minute}"
    return f"{hour:02} h" if hour > 0 else "midnight"


_MONTHS: Final = {
    "Jan": "January",
    "Feb": "February",
    "Mar": "March",
    "Apr": "April",
    "Jun": "June",
    "Jul": "July",
    "Aug": "August",
    "Sep": "September",
    "Sept": "September",
    "Oct": "October",
    "Nov": "November",
    "Dec": "December",
}
_MONTH: Final = "|".join([*_MONTHS.values(), *_MONTHS, "May"])
_SHORT_MONTH: Final = re.compile(
    rf"\b(?P<month>{'|'.join(_MONTHS)})\b(?:(?<=\d\s...)|(?<=\d\s....)|(?=\.?\s\d))(?!\.?\s[A-Za-z])\.?"
)
_CENTURY: Final = re.compile(
    r"\b(?P<first>\d{1,2}(?:st|nd|rd|th)|[A-Za-z]+th|[Ff]irst|[Ss]econd|[Tt]hird|[Tt]wenty-first)"
    r"(?:(?P<and>\s(?:and|to|or)\s(?:the\s)?)(?P<last>\d{1,2}(?:st|nd|rd|th)|[a-z]+th|second|third|twenty-first))?"
    r"\scentur(?:y|ies)\b"
)
_ORDINALS: Final = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth twenty-first"
).split()
_DAYS: Final = {
    "Mon": "Monday",
    "Tue": "Tuesday",
    "Tues": "Tuesday",
    "Wed": "Wednesday",
    "Thu": "Thursday",
    "Thur": "Thursday",
    "Thurs": "Thursday",
    "Fri": "Friday",
    "Sat": "Saturday",
    "Sun": "Sunday",
}
_DAY: Final = "|".join(_DAYS)
_DAY_RANGE: Final = re.compile(
    rf"\b(?P<first>{_DAY})\b\.?(?P<between>\s?[-–—&/]\s?|\sto\s)(?P<last>{_DAY})\b(?:\.(?=\s?[\w,:–-]))?"
)


def _short_month(match: re.Match[str]) -> str:
    return _MONTHS[match["month"]] + final_stop(match)


def _century(match: re.Match[str]) -> str | None:
    """Read 17th and 18th centuries as 17e and 18e siècles."""
    spelled = [each.lower() for each in (match["first"], match["last"]) if each is not None]
    if any(each.isalpha() and each not in _ORDINALS for each in spelled):
        return None
    numbers = [_ORDINALS.index(each) + 1 if each in _ORDINALS else int(each[:-2]) for each in spelled]
    read = [f"{each}{'er' if each == 1 else 'e'}" for each in numbers]
    return (match["and"] or "").join(read) + (" siècles" if len(read) == 2 else " siècle")


def _day_range(match: re.Match[str]) -> str:
    """Read Mon-Fri as Monday to Friday, and Sat & Sun as Saturday and Sunday."""
    between = match["between"].strip()
    between = {"&": "and", "/": "or"}.get(between, between if between.isalpha() else "to")
    return f"{_DAYS[match['first']]} {between} {_DAYS[match['last']]}"


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
_AMOUNT: Final = (
    rf"(?P<number>\d+(?:[.,]\d+)*)(?:(?:\s(?=\w\w))?(?P<size>{'|'.join(_MAGNITUDES)}|[mbtr]+illion)\b)?"
    r"(?!\w|[.,]\d|\s?[-–—]\s?\d)"
)
_FOREIGN_DOLLARS: Final = re.compile(rf"\b(?P<country>{'|'.join(_DOLLARS)})\$\s?{_AMOUNT}")
_LARGE_AMOUNT: Final = re.compile(rf"(?<!\w)(?P<sign>[$£€])\s?{_AMOUNT}")
_MEASURE: Final = re.compile(r"(?<=\d)(?<!\b1)\s?(?P<unit>ft|lbs?)\b(?!-|\.\s[A-Z])\.?(?!\w)")
_DECADE: Final = re.compile(r"(?<!\w)['’](?=[3-9]0s\b)")


def _dollars(match: re.Match[str]) -> str:
    return " ".join(filter(None, (match["number"], _magnitude(match), _DOLLARS[match["country"]], "dollars")))


def _large_amount(match: re.Match[str]) -> str | None:
    if match["size"] not in _MAGNITUDES:
        return None
    return f"{match['sign']}{match['number']} {_magnitude(match)}"


def _magnitude(match: re.Match[str]) -> str | None:
    size: str | None = match["size"]
    return _MAGNITUDES.get(size or "", size)


def _measure(match: re.Match[str]) -> str:
    return (" feet" if match["unit"] == "ft" else " pounds") + final_stop(match)


_ABBREVIATIONS: Final = {
    "approx.": "about",
    "Approx.": "About",
    "i.e.": "that is",
    "I.e.": "That is",
    "U.K.": "UK",
    "vs.": "against",
}

ENGLISH_FOR_FRENCH: Final = (
    Rule(_CLOCK, _clock),
    Rule(_SPOKEN, _spoken, has_digits=False),
    Rule(_CENTURY, _century, has_digits=False),
    Rule(_SHORT_MONTH, _short_month),
    Rule(_DAY_RANGE, _day_range, has_digits=False),
    Rule(_FOREIGN_DOLLARS, _dollars),
    Rule(_LARGE_AMOUNT, _large_amount),
    Rule(_MEASURE, _measure),
    Rule(_DECADE, lambda _: "19"),
    words_rule(_ABBREVIATIONS),
    *shorthand_rules("en"),
)
