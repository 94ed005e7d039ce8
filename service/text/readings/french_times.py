"""French times of day, durations, days and months, as a model that writes English reads them."""

import re
from typing import Final

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
TO_THE_HOUR: Final = re.compile(
    rf"{_BEFORE}\b(?:(?P<hour>{'|'.join(_HOURS)})\sheures?|(?P<noon>midi|minuit))\smoins\s"
    rf"(?P<minutes>{'|'.join(sorted(_MINUTES, reverse=True))})\b(?!\sminutes)",
    re.IGNORECASE,
)
PAST_NOON: Final = re.compile(rf"{_BEFORE}\bmidi\set\s(?P<minutes>quart|demie?)\b", re.IGNORECASE)
_TIME: Final = r"(?P<{0}hour>\d{{1,2}})\s?h(?:eures?)?(?:\s?(?P<{0}minute>[0-5]\d))?\b"
TIME_RANGE: Final = re.compile(
    rf"(?<![\w.,:/-]){_TIME.format('from_')}(?P<to>\s?[-–—/]\s?){_TIME.format('')}", re.IGNORECASE
)
# Of 9h30 à 12h et de 14h à 19h a model drops 14h.
NOON_OF_TWO_RANGES: Final = re.compile(r"(?<=\bà\s)12\s?h(?:eures)?(?=\set\sde\s\d)")
HALF_DAY: Final = re.compile(
    rf"(?<![\w.,:/-]){_TIME.format('')}\s(?P<half>du\smatin|du\ssoir|de\sl['’]après-midi)\b", re.IGNORECASE
)
DURATION: Final = re.compile(
    r"(?P<before>\b(?:dans|dure|durent|durée|duré|durera|dormi|attendu|en|sous|pendant|durant|toutes\sles|chaque|il\sy\sa|met"
    r"|mettre|prend|prendra|délai|délais|moins\sde|plus\sde|une?\s(?:attente|cours|délai|durée|film|heure|marche|pause|réunion|sieste|trajet|vol|voyage)\sde)"
    r"\s(?:(?:d['’]\s?)?(?:environ|à\speine|de|:|près\sde|plus\sde|moins\sde)\s){0,2})?"
    r"(?<![\w.,:/-])(?<!\bà\s)(?P<hours>\d{1,3})\s?(?:h|heures?)(?:\s?(?P<minutes>[0-5]\d))?\b"
    r"(?!\s?[-–—/]\s?\d|\s(?:du\s(?:matin|soir)|de\sl['’]après)|\sà\s\d)"
    r"(?P<after>\s(?:plus\stard|avant|après|par\s(?:jour|semaine|mois|an)|(?:de|d['’]\s?)\s?(?:avance|attente|cours|marche"
    r"|repos|retard|route|sommeil|train|trajet|travail|vol))\b|\s?/\s?(?=jour|semaine|mois))?",
    re.IGNORECASE,
)
AROUND_THE_CLOCK: Final = re.compile(
    r"\b24\s?(?:h|heures)\s?(?:/|sur)\s?24(?:h\b)?(?:(?:,|\set)?\s7\s?(?:j|jours)\s?(?:/|sur)\s?7(?:j\b)?)?"
)
_MORE_HOURS: Final = re.compile(r"(?:,|\set)\s\d")
_LONGEST_CLOCK: Final = 24
_NOON_CLOCK: Final = re.compile(r"^12\s?h(?:eures)?(?:\s?00)?$", re.IGNORECASE)

DAYS: Final = {day[:3]: day for day in ("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche")}
_DAY: Final = "|".join(DAYS)
DAY_RANGE: Final = re.compile(
    rf"\b(?P<first>{_DAY})\.?(?P<between>\s?[-–—/]\s?|\s(?:au|à|et)\s)(?P<last>{_DAY})\b(?:\.(?=\s*\S))?",
    re.IGNORECASE,
)
_SHORT_MONTHS: Final = "janv|févr?|mars|avr|mai|juin|juil|août|sept|oct|nov|déc"
# La mer, un jeu and Sam are words.
ONE_DAY: Final = re.compile(
    rf"(?:^(?P<first>(?i:{_DAY}))|(?:(?<=[,(/–—-])|(?<=[,(/–—-]\s)|(?<=\b(?:et|ou)\s)|(?<=\bouvert\s)|(?<=\bfermé\s))(?P<day>{_DAY})"
    rf"|(?<=\b(?:au|du|le)\s)(?:(?P<other>lun|mar|ven|sam|dim)|(?P<dated>mer|jeu)(?=\.\s\d{{1,2}}\s(?:{_SHORT_MONTHS}))))"
    r"\.(?=\s?[,/–—-]|\s[\da-zà-ÿ(])|(?<=\ble\s)(?P<last>lun|mar|ven|sam|dim)\.(?=$)"
)
_MONTHS: Final = {
    "janv": "janvier",
    "févr": "février",
    "fév": "février",
    "fevr": "février",
    "avr": "avril",
    "juil": "juillet",
    "sept": "septembre",
    "oct": "octobre",
    "nov": "novembre",
    "déc": "décembre",
    "dec": "décembre",
}
# Seven, in sept 3, is a number: short names have a full stop or a date.
MONTH: Final = re.compile(
    rf"(?<!-)\b(?P<month>{'|'.join(sorted(_MONTHS, reverse=True))})\b(?:\.(?=,?\s?[\w(/–—-]|$|\s?[,;:!?)»])"
    r"|(?<=\d\s...)(?!\.)|(?<=\d\s....)(?!\.)(?=\s\d{4}\b))",
    re.IGNORECASE,
)
_LONGEST_DATE: Final = len("mercredi 24 ")
_DATE_BEFORE: Final = re.compile(
    r"(?:\d|\d(?:er|re)|\b(?:en|de|début|fin|mi|depuis|dès|jusqu['’]en))[\s-]$", re.IGNORECASE
)
_DAY_BEFORE: Final = re.compile(r"\d(?:er)?\s$")
_SENTENCE_AFTER: Final = re.compile(r"[ »\"]*$|\s[A-ZÀ-Þ]")
_DATE_AFTER: Final = re.compile(r"\s?[-–—/]?\s?\d|\s(?:au|à|et)\s")


def to_the_hour(match: re.Match[str]) -> str:
    """Read huit heures moins le quart as a quarter to eight."""
    hour = _NOON[match["noon"].lower()] if match["hour"] is None else _HOURS[match["hour"].lower()]
    return f"{_before(match)}{_MINUTES[match['minutes'].lower()]} to {hour}"


def past_noon(match: re.Match[str]) -> str:
    """Read midi et quart as a quarter past twelve."""
    time = "a quarter past twelve" if match["minutes"].lower() == "quart" else "half past twelve"
    return _before(match) + time


def _before(match: re.Match[str]) -> str:
    """Return the English words for those before a time, which a model cannot translate beside English ones."""
    words = match["before"]
    return "" if words is None else {"à ": "at ", "À ": "At "}.get(words, "It's " if words[0] == "I" else "it's ")


def time_range(match: re.Match[str]) -> str:
    """Read 9h-17h as 9h à 17h, and 18h30/19h as 18h30 ou 19h."""
    first, between, last = match[0].partition(match["to"])
    minutes = [int(match[f"{name}hour"]) * 60 + int(match[f"{name}minute"] or 0) for name in ("from_", "")]
    last = _NOON_CLOCK.sub("midi", last)
    is_choice = "/" in between and 0 < minutes[1] - minutes[0] <= 60
    return f"{first} {'ou' if is_choice else 'à'} {last}"


def half_day(match: re.Match[str]) -> str | None:
    """Read 8h du soir as 20 h."""
    hour, half = int(match["hour"]), match["half"].lower()
    if not 1 <= hour <= 11:
        return None
    hour += 0 if half.endswith("matin") else 12
    return f"{hour} h {match['minute'] or ''}".rstrip()


def duration(match: re.Match[str]) -> str | None:
    """Read 2h and 2h15 beside words that make them durations as 2 heures and 135 minutes."""
    hours = int(match["hours"])
    if match["before"] is None and match["after"] is None and hours <= _LONGEST_CLOCK:
        return None
    # It is less than ten o'clock. There are 9h, 11h and 14h.
    is_list = match["before"] == "il y a " and _MORE_HOURS.match(match.string, match.end())
    if is_list or (match["before"] is not None and match.string[: match.start()].endswith("est ")):
        return None
    if match["minutes"] is None:
        time = f"{hours} heure{'s' * (hours > 1)}"
    else:
        time = f"{hours * 60 + int(match['minutes'])} minutes"
    after = match["after"] or ""
    return (match["before"] or "") + time + (" par " if after.strip() == "/" else after)


def day_range(match: re.Match[str]) -> str | None:
    """Read lun.-ven. as lundi au vendredi."""
    between = match["between"].strip()
    if between.isalpha() and "." not in match[0]:  # la mer et Sam
        return None
    # The model drops the second day before an hour.
    comma = "," if match.string.startswith(" de ", match.end()) else ""
    return (
        f"{DAYS[match['first'].lower()]} {between if between.isalpha() else 'au'} {DAYS[match['last'].lower()]}{comma}"
    )


def one_day(match: re.Match[str]) -> str:
    """Read lun. as lundi."""
    short = next(filter(None, match.groups()))
    return DAYS[short.lower()] + ("." if match["last"] else "")


def month(match: re.Match[str]) -> str | None:
    """Read 24 déc. as 24 décembre."""
    before = match.string[max(match.start() - _LONGEST_DATE, 0) : match.start()]
    is_date = _DATE_BEFORE.search(before)
    if match["month"].lower() == "sept":  # seven
        is_date = _DAY_BEFORE.search(before)
    else:
        is_date = is_date or _DATE_AFTER.match(match.string, match.end())
    if is_date is None:
        return None
    # Of a date alone, the full stop is the abbreviation's.
    is_sentence = match.start() > _LONGEST_DATE
    is_last = is_sentence and match[0].endswith(".") and _SENTENCE_AFTER.match(match.string, match.end())
    return _MONTHS[match["month"].lower()] + ("." if is_last else "")
