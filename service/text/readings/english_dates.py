"""English days, months, dates, centuries and ordinals, as a model that writes French reads them."""

import itertools
import re
from typing import Final

from service.text.readings.rule import final_stop

_SHORT_MONTHS: Final = {
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
_SHORT: Final = "|".join(sorted(_SHORT_MONTHS, reverse=True))
_MONTH: Final = rf"(?:{'|'.join([*_SHORT_MONTHS.values(), 'May'])}|(?:{_SHORT})\b\.?)"
_NO_MORE_DAYS: Final = r"(?!\s?[-–—/]\s?\d|(?:,?\s(?:and|or|to)|,)\s\d{1,2}\b(?!:|\s?[ap]\.?m))"
MONTH_AND_DAY: Final = re.compile(
    rf"\b(?P<month>{_MONTH})\s(?P<day>[12]\d|3[01]|0?[1-9])(?P<th>st|nd|rd|th)?\b(?:,?\s(?P<year>[12]\d{{3}})\b)?"
    rf"{_NO_MORE_DAYS}(?(year)|(?!,?\s[12]\d{{3}}\b)"
    rf"(?=$|\.?$|[.,;:!?)–—-](?!\d)|\s(?:at|by|for|from|in|is|the|to|until|was|we|with)\b|\s[-–—(&]|,\s))"
)
SHORT_MONTH: Final = re.compile(rf"\b(?P<month>{_SHORT})\b(?:(?<=\d\s...)|(?<=\d\s....)|(?=\.?\s\d))(?!\.?\s[A-Z])\.?")
LATER_IN_A_SENTENCE: Final = re.compile(
    rf"\b(?P<before>(?:in|since|until|till|early|mid|late|last|next|this)[\s-])(?P<month>{_SHORT})\b"
    r"(?P<stop>\.?)(?!['’\w]|\.?\s[A-Z\d])"
)
MONTH_RANGE: Final = re.compile(
    rf"\b(?P<first>{_SHORT})\b\.?(?P<to>\s?[-–—]\s?|\sto\s)(?P<last>{_SHORT}|May)\b(?:\.(?=\s?[\w,:–-]))?"
)
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
_DAY: Final = "|".join(sorted(_DAYS, reverse=True))
_BETWEEN: Final = r"\s?[-–—&/]\s?|,?\s(?:and|or|to)\s|,\s?(?:&\s)?"
DAYS: Final = re.compile(rf"\b(?:{_DAY})\b\.?(?:(?:{_BETWEEN})(?:{_DAY})\b(?:\.(?=\s?[\w,:–-]))?)+(?!\s[A-Z][a-z])")
_ONE_OF_DAYS: Final = re.compile(rf"(?P<day>{_DAY})\b\.?|(?P<between>{_BETWEEN})")
ONE_DAY: Final = re.compile(
    rf"\b(?P<day>{_DAY})\b(?:(?P<stop>\.)(?!\s?[A-Z])|(?=,?\s(?:\d|{_MONTH})|\s(?:at|morning|afternoon|evening|night)\b)"
    rf"|(?:(?<=\b(?:[Oo]n|[Bb]y)\s...)|(?<=\b(?:[Oo]n|[Bb]y)\s....)|(?<=\b[Cc]losed\s...)|(?<=\b(?:[Ll]ast|[Nn]ext|[Tt]his|[Oo]pen)\s...)"
    rf"|(?<=\b(?:[Ee]very|[Uu]ntil)\s...))(?![\w-]|\s[A-Z]))"
)
_COUNTED: Final = re.compile(r"\s\d+\s[a-z]")
_YEAR_OF: Final = re.compile(r"$|[.,;:!?)]|\s(?:and|at|by|for|from|in|is|or|the|to|until|was|we|with)\b|\s?[-–—(&]")
_VERB: Final = re.compile(r"\s(?:is|was)\b")
_DATED: Final = re.compile(rf",?\s(?:\d{{1,2}}(?::|\s?[ap]\.?m|\s{_MONTH})|{_MONTH})")
_THIS: Final = re.compile(r"\b(?:this|until)\s$", re.IGNORECASE)
_DIGIT_AFTER: Final = re.compile(r",?\s\d")
_THE: Final = re.compile(r"\b(?:[Tt]he|[Mm]y|[Yy]our|[Hh]is|[Hh]er|[Aa]nd|[Ww]e|[Ii])\s$")
_ON: Final = re.compile(r"\b(?:on|by|and|to|until|closed|every|next|last)\s$", re.IGNORECASE)
_LONGEST_BEFORE: Final = len(" closed ")

_ORDINAL: Final = r"\d{1,2}(?:st|nd|rd|th)"
CENTURY: Final = re.compile(
    rf"\b(?P<first>{_ORDINAL}|[A-Za-z]+th|[Ff]irst|[Ss]econd|[Tt]hird|[Tt]wenty-first)"
    rf"(?:(?P<and>\s(?:and|to|or)\s(?:the\s)?)(?P<last>{_ORDINAL}|[a-z]+th|second|third|twenty-first))?"
    r"(?P<space>[\s-])centur(?:y|ies)\b"
)
_ORDINALS: Final = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth twenty-first"
).split()
ORDINAL: Final = re.compile(
    r"\b(?P<number>[2-9]\d|1\d\d)(?:st|nd|rd|th)(?=\s(?:anniversary|birthday|edition|street|week)\b)"
)


def month_and_day(match: re.Match[str]) -> str | None:
    """Read Dec. 24, 2021 as 24 December 2021: of two such dates a model repeats one's day."""
    if match["month"] in ("May", "March") and match["year"] is None and match["th"] is None:
        # May 3 people come in?
        after = match.string[match.end() :][:1]
        if after == " ":
            return None
    # On March 3, 1500 people protested.
    if match["year"] is not None and int(match["year"]) < 1900 and not _YEAR_OF.match(match.string, match.end()):
        return None
    month = match["month"].rstrip(".")
    day = match["day"].lstrip("0")
    date = f"{'1st' if day == '1' else day} {_SHORT_MONTHS.get(month, month)}"
    if match.start() == 0 and _VERB.match(match.string, match.end()):  # a model drops the article otherwise
        date = f"The {date}"
    return date if match["year"] is None else f"{date} {match['year']}"


def short_month(match: re.Match[str]) -> str | None:
    """Read Apr as April."""
    if match["month"] == "Jan" and _COUNTED.match(match.string, match.end()):
        return None
    return _SHORT_MONTHS[match["month"]] + final_stop(match)


def later_in_a_sentence(match: re.Match[str]) -> str | None:
    """Read in Feb. as in February."""
    if match["month"] == "Jan" and match["before"][:-1] not in ("early", "mid", "late", "last", "next"):  # a name
        return None
    return match["before"] + _SHORT_MONTHS[match["month"]] + final_stop(match)


def month_range(match: re.Match[str]) -> str:
    """Read Jan-Mar as January to March."""
    return f"{_SHORT_MONTHS[match['first']]} to {_SHORT_MONTHS.get(match['last'], match['last'])}"


def days(match: re.Match[str]) -> str:
    """Read Mon-Fri as Monday to Friday, and Mon, Wed & Sat as Monday, Wednesday and Saturday."""
    last = len(re.findall(_DAY, match[0])) - 1
    days = itertools.count()

    def read(part: re.Match[str]) -> str:
        if part["day"] is not None:
            return _DAYS[part["day"]]
        between, number = part["between"].strip(), next(days)
        if between == "/":
            return ", " if number < last - 1 else " or " if last == 1 else " and "
        if between in ("-", "–", "—"):
            return " to "
        return " and " if between.endswith("&") else f"{between} " if between == "," else f" {between} "

    return _ONE_OF_DAYS.sub(read, match[0])


def one_day(match: re.Match[str]) -> str | None:
    """Read See you Sat at 8 as See you Saturday at 8."""
    before = match.string[max(match.start() - _LONGEST_BEFORE, 0) : match.start()]
    if match["day"] in ("Sun", "Sat") and (
        _THE.search(before) or (match.end() == len(match.string) and not _ON.search(before))
    ):
        return None
    is_word = match.start() == 0 or _THIS.search(before) or _DIGIT_AFTER.match(match.string, match.end())
    if match["day"] in ("Sun", "Sat") and not match["stop"] and is_word and not _DATED.match(match.string, match.end()):
        return None
    return _DAYS[match["day"]] + final_stop(match)


def century(match: re.Match[str]) -> str | None:
    """Read 17th and 18th centuries as 17e and 18e siècles."""
    spelled = [each.lower() for each in (match["first"], match["last"]) if each is not None]
    if any(each.isalpha() and each not in _ORDINALS for each in spelled):
        return None
    numbers = [_ORDINALS.index(each) + 1 if each in _ORDINALS else int(each[:-2]) for each in spelled]
    read = [f"{each}{'er' if each == 1 else 'e'}" for each in numbers]
    return (match["and"] or "").join(read) + match["space"] + ("siècles" if len(read) == 2 else "siècle")
