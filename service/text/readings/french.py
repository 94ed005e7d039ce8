"""French ordinals, times, amounts and abbreviations, as a model that writes English reads them."""

import re
from typing import Final

from service.text.readings import french_times as times
from service.text.readings.rule import Rule, final_stop, words_rule
from service.text.readings.shorthand import shorthand_rules

_ROMAN: Final = {"I": 1, "V": 5, "X": 10}
_MONTHS: Final = "janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre"
_ORDINAL: Final = re.compile(
    r"\b(?:(?P<first>I)(?:er|ᵉʳ|re|ère)|(?P<roman>[VX][IVX]*|I[IVX]+)(?:[eè]me|e|ᵉ|E(?=\sSIÈCLES?\b))"
    rf"|(?<!-)(?P<number>\d{{1,3}})(?:er|ᵉʳ|(?P<feminine>(?<=\b1)(?:re|ère))|nde?|[eè]me|e|ᵉ))s?\b"
    rf"(?!['’]|\s(?i:{_MONTHS}|janv|févr?|avr|juil|sept|oct|nov|déc|âge)\b)"
)
_FIRST_CENTURY: Final = re.compile(r"\s(?:siècle|arrondissement|empire|millénaire)", re.IGNORECASE)


def _ordinal(match: re.Match[str]) -> str | None:
    """Read XVIe and 16e as 16th."""
    # François Ier is a name.
    if match["first"] is not None and not _FIRST_CENTURY.match(match.string, match.end()):
        return None
    number = _arabic(match["roman"] or match["first"]) if match["number"] is None else int(match["number"])
    if match["feminine"] is not None:  # the 1st times, otherwise
        return "première"
    last = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{last}"


def _arabic(roman: str) -> int:
    values = [_ROMAN[letter] for letter in roman]
    return sum(-value if value < after else value for value, after in zip(values, [*values[1:], 0], strict=True))


_ERA: Final = re.compile(r"\b(?P<side>avant|av\.|après|apr\.|ap\.)\sJ\.?-?C\.?(?!\w)")
_PRICE: Final = re.compile(
    r"\b(?P<euros>\d+)\s?€\s?(?P<cents>\d\d)\b(?=$|[.,;:!?)]|\s(?:le|la|les|par|pour|au|et|pièce|chacune?|de\smoins|de\splus)\b)"
)
_THOUSANDS: Final = re.compile(
    r"(?<![\w.,])(?P<number>\d{1,3}(?:[ \u00a0\u202f]\d{3})*(?:[.,]\d{1,3})?)\s?(?P<size>[kKM]|Mds?)\s?€"
)
_DOLLARS: Final = re.compile(
    r"(?<![\w.,])(?P<number>\d{1,3}(?:[ \u00a0\u202f]?\d{3})*(?:,\d{1,2})?)\s?\$\s?(?P<country>US|CAN?)\b"
)
_EUROS: Final = re.compile(
    r"(?P<before>\b(?:[çÇ]a\sfait|coûte|coûtent|vaut|payé|dépensé)\s(?:que\s)?)?\b(?P<number>\d{1,4})\s?e\b"
    r"(?(before)(?=$|\s?[.,;:!?)])|(?=\s(?:le\s(?:kilo|kg|litre|mètre|paquet)|la\s(?:nuit|place|part))\b))"
)
_EUROS_AND_CENTS: Final = re.compile(
    r"\b(?P<euros>\d{1,4})\seuros?\s(?P<cents>\d\d)\b(?=$|[.,;:!?)]|\s(?:le|la|les|par|pour|au)\b)"
)
_CENTURY: Final = re.compile(r"(?<=[IVX\d]e)\ss\.(?=\s|$)")
# Nos 2 enfants are ours.
_NUMBERS: Final = re.compile(r"\b(?P<word>[Nn])os\s(?=\d{1,4}(?:,\s\d{1,4})*\s(?:et|à|ou)\s\d{1,4}(?:$|[.,;:)]))")
# Not me contacter, nor the words of a title.
_LAWYER: Final = re.compile(
    r"(?:^|(?<=[a-zà-ÿ,;:(]\s)(?<![A-Z][a-z]\s))Me\s(?=[A-ZÀ-Þ][a-zà-ÿ]+\b(?<!er)(?<!ir)(?<!re)(?<!oilà)(?<!oici))"
)
_AVENUE: Final = re.compile(
    r"(?:(?<=\d\s)|(?<=,\s))(?:(?P<avenue>av)\.|(?:bd|boul)\.?)\s(?=[A-ZÀ-Þ](?!\.)|d(?:e|u|es)\s)"
)
_LIMIT: Final = re.compile(
    r"(?:^(?P<start>Max|Min)|(?<!\d\s)\b(?P<word>max|min))\.(?=\s\d)|(?<=\bau\s)(?P<at>max|min)\.?(?=\s|$)"
)
_SPOONS: Final = re.compile(
    r"(?<![\d,./])(?P<number>\d+(?:[,/]\d+)?)\s(?:c\.|cuillères?)\sà\s(?P<kind>s\.|c\.|soupe\b|café\b)(?P<ends>(?=$|\s[A-ZÀ-Þ]))?"
)
_PARTS: Final = {"Chap": "Chapitre", "chap": "chapitre", "Vol": "Volume", "vol": "volume"}
_PART: Final = re.compile(rf"\b(?P<word>{'|'.join(_PARTS)})\.(?=\s(?:\d{{1,3}}|[IVX]+)(?:$|[,.;:)]))")
_CLOSING: Final = re.compile(
    r"^(?:(?:(?:Bien|Très)\s)?(?:[Cc]ordialement|[Aa]micalement)"
    r"|(?:(?:Sincères|Meilleures)\s[Ss]|S)alutations(?:\sdistinguées|\scordiales|(?=,?$))"
    r"|Bien\sà\s(?:vous|toi))(?=,|\.?$)"
)
_UNITS: Final = (
    "un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit "
    "dix-neuf"
).split()
_IN_WORDS: Final = re.compile(
    rf"(?<!cent[\s-])(?<!cents[\s-])(?<!mille[\s-])\b(?P<tens>soixante|quatre-vingt)(?:-|\set\s|-et-)(?P<units>{'|'.join(reversed(_UNITS))})\b"
    r"(?!-|\s(?:cents?|mille|millions?|milliards?)\b)"
)
_FORMAL_CLOSING: Final = re.compile(
    r"^(?:Veuillez|Je\svous\sprie\s(?:de|d['’]))\s?(?:bien\svouloir\s)?(?:agréer|recevoir|croire)\b[^.]{0,120}"
    r"\b(?:salutations|sentiments|considération)\b[^.,]{0,40}(?=[.,]?$)"
)
_JOURNEY: Final = re.compile(r"\b(?P<word>dép|arr)\.(?=\s(?::\s)?\d{1,2}\s?[h:])")
_ONE: Final = re.compile(r"(?<![\d.,])[01]$")
_LITRES: Final = re.compile(r"(?<=\d)\s?[lL](?=\sd(?:e\s|['’]))")
_COUPLE: Final = re.compile(r"\bM\. et Mme\b")


def _era(match: re.Match[str]) -> str:
    return ("BC" if match["side"].startswith("av") else "AD") + final_stop(match)


def _thousands(match: re.Match[str]) -> str | None:
    """Read 500 k€ as 500 000 €, and 2,5 Md€ as 2,5 milliards d'euros."""
    number, size = re.sub(r"[\s\u00a0\u202f]", "", match["number"]).replace(".", ","), match["size"]
    whole, _, fraction = number.partition(",")
    if size in "kK":
        if len(fraction) > 3:
            return None
        return f"{int(whole + fraction.ljust(3, '0')):,}".replace(",", " ") + " €"
    name = "million" if size == "M" else "milliard"
    return f"{match['number']} {name}{'s' * (int(whole) > 1)} d'euros"


def _dollars(match: re.Match[str]) -> str:
    return f"{match['number']} dollars {'américains' if match['country'] == 'US' else 'canadiens'}"


def _spoons(match: re.Match[str]) -> str:
    kind = "tablespoon" if match["kind"].startswith("s") else "teaspoon"
    stop = "." if match["ends"] is not None and match[0].endswith(".") else ""
    return f"{match['number']} {kind}{'' if match['number'] in ('1', '1/2') else 's'}{stop}"


def _euros(match: re.Match[str]) -> str:
    """Read ça fait 20e as ça fait 20 €."""
    return f"{match['before'] or ''}{match['number']} €"


def _in_words(match: re.Match[str]) -> str | None:
    """Read quatre-vingt-deux as 82: of the numbers from 71 to 99 a model confuses some."""
    number = {"soixante": 60, "quatre-vingt": 80}[match["tens"]] + _UNITS.index(match["units"]) + 1
    is_alone = match[0] == match.string.strip(" .!?")
    return str(number) if number > 70 and not is_alone else None


_ABBREVIATIONS: Final = {
    "24/24 et 7/7": "24/7",
    "R.S.V.P.": "Répondez s'il vous plaît",
    "Bât.": "Bâtiment",
    "Mlle": "Miss",
    "Mme.": "Mme",
    "Réf.": "Référence",
    "Tél.": "Téléphone",
    "c.-à-d.": "c'est-à-dire",
    "env.": "environ",
    "Env.": "Environ",
    "non potable": "undrinkable",
    "p. ex.": "par exemple",
    "réf.": "référence",
    "tél.": "téléphone",
}

FRENCH_FOR_ENGLISH: Final = (
    Rule(_EUROS, _euros),
    Rule(_ORDINAL, _ordinal, has_digits=False),
    Rule(times.TO_THE_HOUR, times.to_the_hour, has_digits=False),
    Rule(times.PAST_NOON, times.past_noon, has_digits=False),
    Rule(times.AROUND_THE_CLOCK, lambda match: "24/7" if "7" in match[0] else "24 heures par jour"),
    Rule(times.TIME_RANGE, times.time_range),
    Rule(times.NOON_OF_TWO_RANGES, lambda _: "midi"),
    Rule(times.HALF_DAY, times.half_day),
    Rule(times.DURATION, times.duration),
    Rule(times.DAY_RANGE, times.day_range, has_digits=False),
    Rule(times.ONE_DAY, times.one_day, has_digits=False),
    Rule(times.MONTH, times.month, has_digits=False),
    Rule(_ERA, _era, has_digits=False),
    Rule(_PRICE, lambda match: f"{match['euros']},{match['cents']} €"),
    Rule(_EUROS_AND_CENTS, lambda match: f"{match['euros']},{match['cents']} euros"),
    Rule(_THOUSANDS, _thousands),
    Rule(_DOLLARS, _dollars),
    Rule(_JOURNEY, lambda match: {"dép": "départ", "arr": "arrivée"}[match["word"]]),
    Rule(_LITRES, lambda match: " litre" if _ONE.search(match.string, 0, match.start()) else " litres"),
    Rule(_SPOONS, _spoons),
    Rule(_NUMBERS, lambda match: ("N" if match["word"] == "N" else "n") + "uméros "),
    Rule(
        _LIMIT,
        lambda match: (match["start"] or match["word"] or match["at"]) + "imum" + final_stop(match),
        has_digits=False,
    ),
    Rule(_PART, lambda match: _PARTS[match["word"]]),
    Rule(_CENTURY, lambda _: " siècle", has_digits=False),
    Rule(_COUPLE, lambda _: "Mr. et Mrs.", has_digits=False),
    Rule(_LAWYER, lambda _: "Maître ", has_digits=False),
    Rule(_AVENUE, lambda match: "avenue " if match[0].startswith("av") else "boulevard ", has_digits=False),
    Rule(_CLOSING, lambda _: "Best wishes", has_digits=False),
    Rule(_IN_WORDS, _in_words, has_digits=False),
    Rule(_FORMAL_CLOSING, lambda _: "Yours sincerely", has_digits=False),
    words_rule(_ABBREVIATIONS),
    *shorthand_rules("fr"),
)
