"""What a model that writes English reads instead of French times of day, durations, days and months."""

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
HALF_DAY: Final = re.compile(
    rf"(?<![\w.,:/-]){_TIME.format('')}\s(?P<half>du\smatin|du\ssoir|de\sl['’]après-midi)\b", re.IGNORECASE
)
DURATION: Final = re.compile(
    r"(?P<before>\b(?:dans|dure|durent|durée|duré|durera|sous|pendant|durant|toutes\sles|chaque|il\sy\sa|met|mettre|prend"
    r"|prendra|délai|délais|moins\sde|plus\sde|vol|pause|trajet|encore)\s(?:(?:d['’]\s?)?(?:environ|à\speine|de|:|près\sde"
    r"|encore|plus\sde|moins\sde)\s){0,2})?"
    r"(?<![\w.,:/-])(?P<hours>\d{1,3})\s?(?:h|heures?)(?:\s?(?P<minutes>[0-5]\d))?\b(?!\s?[-–—/]\s?\d)"
    r"(?P<after>\s(?:plus\stard|avant|après|par\s(?:jour|semaine|mois|an)|(?:de|d['’]\s?)\s?(?:avance|attente|cours|marche"
    r"|repos|retard|route|sommeil|train|trajet|travail|vol)|sur\splace)\b|\s?/\s?(?=jour|semaine|mois))?",
    re.IGNORECASE,
)
AROUND_THE_CLOCK: Final = re.compile(
    r"\b24\s?(?:h|heures)\s?(?:/|sur)\s?24(?:h\b)?(?:(?:,|\set)?\s7\s?(?:j|jours)\s?(?:/|sur)\s?7(?:j\b)?)?"
)
_LONGEST_CLOCK: Final = 24
_NOON_CLOCK: Final = re.compile(r"^12\s?h(?:eures)?(?:\s?00)?$", re.IGNORECASE)

DAYS: Final = {day[:3]: day for day in ("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche")}
_DAY: Final = "|".join(DAYS)
DAY_RANGE: Final = re.compile(
    rf"\b(?P<first>{_DAY})\.?(?P<between>\s?[-–—/]\s?|\s(?:au|à|et)\s)(?P<last>{_DAY})\b(?:\.(?=\s*\S))?",
    re.IGNORECASE,
)
# La mer, un jeu and Sam are words.
ONE_DAY: Final = re.compile(
    rf"(?<!\bla\s)(?<!\bde\s)(?<!\ben\s)(?<!\bun\s)(?<!\bau\s)(?<!\bdu\s)(?<!\ble\s)\b(?P<day>(?i:{_DAY}))\.(?=\s?[,/–—-]|\s[\da-zà-ÿ(])"
    r"|(?<=\b[dl][eu]\s)(?P<last>lun|mar|ven|sam|dim)\.(?=$|\s?[,/–—-]|\s[\da-zà-ÿ(])"
    r"|(?<=\b[dl][eu]\s)(?P<dated>mer|jeu)\.(?=\s\d)"
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
    rf"\b(?P<month>{'|'.join(sorted(_MONTHS, reverse=True))})\b(?:\.(?=,?\s?[\d\w(/–—-]|$|[,;:!?)])|(?<=\d\s...)(?!\.)"
    r"|(?<=\d\s....)(?!\.)(?=\s\d{4}\b))",
    re.IGNORECASE,
)
_LONGEST_DATE: Final = len("mercredi 24 ")
_DATE_BEFORE: Final = re.compile(
    r"(?:\d|\d(?:er|re)|\b(?:en|de|début|fin|mi|depuis|dès|jusqu['’]en))[\s-]$", re.IGNORECASE
)
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
    first, last = (_NOON_CLOCK.sub("midi", each) for each in (first, last))
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
    return f"{DAYS[match['first'].lower()]} {between if between.isalpha() else 'au'} {DAYS[match['last'].lower()]}"


def one_day(match: re.Match[str]) -> str:
    """Read lun. as lundi."""
    return DAYS[(match["day"] or match["last"] or match["dated"]).lower()] + (
        "." if match.end() == len(match.string) else ""
    )


def month(match: re.Match[str]) -> str | None:
    """Read 24 déc. as 24 décembre."""
    before = match.string[max(match.start() - _LONGEST_DATE, 0) : match.start()]
    is_date = _DATE_BEFORE.search(before) or _DATE_AFTER.match(match.string, match.end())
    if is_date is None:
        return None
    # Of a date alone, the full stop is the abbreviation's.
    is_sentence = match.start() > _LONGEST_DATE
    is_last = is_sentence and match[0].endswith(".") and not match.string[match.end() :].strip(' »"')
    return _MONTHS[match["month"].lower()] + ("." if is_last else "")
