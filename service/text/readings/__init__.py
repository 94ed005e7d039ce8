"""Spellings that small models garble, and what a model reads instead of them.

Of 8 p.m. a model makes "8 h" in French, or "19 heures"; "20 h" it copies. The sentence itself stays as it is.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from service.text.readings.english import ENGLISH_FOR_FRENCH
from service.text.readings.french import FRENCH_FOR_ENGLISH
from service.text.readings.rule import Rule
from service.text.readings.shorthand import AMBIGUOUS_IN_CAPITALS

_DIGIT: Final = re.compile(r"\d")
_RULES: Final[Mapping[tuple[str, str], Sequence[Rule]]] = {
    ("en", "fr"): ENGLISH_FOR_FRENCH,
    ("fr", "en"): FRENCH_FOR_ENGLISH,
}


class Reading(NamedTuple):
    """The text that a model reads for characters `start` to `end` of a sentence."""

    start: int
    end: int
    text: str


@lru_cache(maxsize=64)  # the readings of a sentence are needed for its length, its tokens and its numbers
def readings(sentence: str, languages: tuple[str, str], *, in_capitals: bool = False) -> Sequence[Reading]:
    """Return what a model reads differently in a sentence, in its order, without overlaps.

    `languages` are those of the sentence and its translation, as codes of BCP 47. `in_capitals` is a sentence whose
    letters all are; its readings are not.
    """
    source, target = (language.partition("-")[0] for language in languages)
    rules = _RULES.get((source, target), ())
    has_digits = _DIGIT.search(sentence) is not None
    # Shorthand has no capitals, and an English month has one.
    spellings = [sentence, sentence.lower()] if in_capitals else [sentence]
    if in_capitals and source == "en":
        spellings.append(sentence.title())
    found = [
        Reading(match.start(), match.end(), text)
        for spelling in spellings
        if len(spelling) == len(sentence)
        for rule in rules
        if has_digits or not rule.has_digits
        for match in rule.pattern.finditer(spelling)
        if (text := rule.read(match)) not in (None, match[0])
        and not (in_capitals and match[0].lower() in AMBIGUOUS_IN_CAPITALS)
    ]
    kept: list[Reading] = []
    for each in sorted(found, key=lambda each: (each.start, -each.end)):
        if not kept or each.start >= kept[-1].end:
            kept.append(each)
    return kept
