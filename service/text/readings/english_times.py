"""English times of day, as a model that writes French reads them."""

import re
from typing import Final

from service.text.readings.rule import final_stop

_HOURS: Final = "one two three four five six seven eight nine ten eleven twelve".split()
_MINUTES: Final = {"five": 5, "ten": 10, "quarter": 15, "a quarter": 15, "twenty": 20, "twenty-five": 25, "half": 30}
_HALF_DAY: Final = r"\s?(?P<half>[ap])(?:m\b|\.\s?m\b\.?)"
_TIME: Final = r"(?P<hour>\d{1,2})(?:[:.](?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?)?"
_FROM: Final = r"(?P<from_hour>\d{1,2})(?:[:.](?P<from_minute>[0-5]\d))?(?P<to>\s?[-–—]\s?|\s(?:to|and|or)\s)"
CLOCK: Final = re.compile(rf"(?<![\w.,:/$£€])(?<!\d[-–])(?:{_FROM})?{_TIME}{_HALF_DAY}(?!\sI\b)", re.IGNORECASE)
SPOKEN: Final = re.compile(
    rf"\b(?P<minutes>{'|'.join(_MINUTES)})\s(?P<side>past|to)\s(?P<hour>{'|'.join(_HOURS)}|1[0-2]|[1-9])\b"
    rf"(?:{_HALF_DAY}|\so['’]clock\b)?",
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
# The other time of a range.
_OTHER: Final = r"(?<![\d:.])\d{1,2}(?P<minutes>[:.][0-5]\d)?\s?[ap]\.?\s?m\b\.?"
_BETWEEN: Final = r"\s?(?:[-–—]|\b(?:to|until|till|and|or)\b)\s?"
_BEGIN: Final = re.compile(rf"{_OTHER}{_BETWEEN}$", re.IGNORECASE)
_END: Final = re.compile(rf"{_BETWEEN}{_OTHER}", re.IGNORECASE)
_LONGEST_BEGIN: Final = len("10:30 p.m. until ")


def clock(match: re.Match[str]) -> str | None:
    """Read a time of 12 hours, or a range of two, as times of 24 hours."""
    hour, is_late = int(match["hour"]), match["half"] in "pP"
    begins = None if match["from_hour"] is None else int(match["from_hour"])
    if not 1 <= hour <= 12 or (begins is not None and not 1 <= begins <= 12):
        return None
    before = match.string[max(match.start() - _LONGEST_BEGIN, 0) : match.start()]
    if _NUMBERED_BEFORE.search(before) or _TITLE.match(match.string, match.start("half")):
        return None
    if begins is not None and (_LISTED_BEFORE.search(before) or (hour == 12 and not is_late)):
        return None
    other = _BEGIN.search(before) or _END.match(match.string, match.end())
    whole = _ALONE
    if begins is not None or other is not None:
        has_minutes = match["minute"] or match["from_minute"] or (other and other["minutes"])
        whole = "{:02}:00" if has_minutes else "{} h"
    text = _time(_of_day(hour, is_late=is_late), match["minute"], match["second"], whole)
    if begins is not None:
        # 2-5 pm are both in the afternoon, 9-5 pm are not.
        is_same_half = begins % 12 < hour % 12
        begins = _of_day(begins, is_late=is_late == is_same_half)
        text = _time(begins, match["from_minute"], None, whole) + match["to"] + text
    return text + final_stop(match)


def spoken(match: re.Match[str]) -> str | None:
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


_ALONE: Final = "{:02} h"
"""The reading of a whole hour without another time beside it: a model makes 14 h of 5 h, but not of 05 h.

In a range the models write 9 h to 17 h more faithfully than 09 h to 17 h, and 09:00 to 17:15 than 9 h to 17:15.
"""


def _of_day(hour: int, *, is_late: bool) -> int:
    return hour % 12 + 12 * is_late


def _time(hour: int, minute: str | None, second: str | None = None, whole: str = _ALONE) -> str:
    if second is not None:
        return f"{hour:02}:{minute}:{second}"
    if minute not in (None, "00"):
        return f"{hour:02}:{minute}"
    return whole.format(hour) if hour > 0 or whole.endswith(":00") else "midnight"
