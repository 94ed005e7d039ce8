"""Signs of a bad translation that need no reference: repetitions, and what is on one side only.

A sign is no proof, since good translations have some, too: compare counts with those of references or other weights.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from model.training.mismatch import find_mismatch

_CORPUS_SIGNS: Final = {"markup", "holes", "broken characters", "lost letters"}
"""Signs that a text was badly extracted; a translation may have them from its source."""

_REPEATED: Final = re.compile(r"\b([^\W\d]\w*(?:\W+\w+){0,4})(?:\W+\1\b)+", re.IGNORECASE)
_REFLEXIVE: Final = {"nous", "vous"}  # "nous nous levons"
_NEGATIVE: Final = {
    "en": re.compile(r"n['’]t\b|\b(?:not|never|no|none|nobody|nothing|neither|nor|without|cannot)\b", re.IGNORECASE),
    "fr": re.compile(r"\bn['’]|\b(?:ne|pas|non|jamais|aucune?|rien|personne|ni|sans)\b", re.IGNORECASE),
}
# Letters that no English and no French word has: names of other languages, which stay as they are.
_FOREIGN: Final = "đłńśźżąęćčšžřěůűőøåäöüñãõşğðþăơư"
_FOREIGN_NAME: Final = re.compile(rf"\b\w*[{_FOREIGN}{_FOREIGN.upper()}]\w*\b")


def find_signs(source: str, translation: str, languages: tuple[str, str]) -> list[str]:
    """Return the signs of a bad translation, in a few words each, for counting; `languages` are source and target.

    Negation is looked for in English and French only; "ne ... que" (only) counts as one.
    """
    found = [sign for sign in [find_mismatch(source, translation)] if sign and sign not in _CORPUS_SIGNS]
    if _repeats(translation) > _repeats(source):
        found.append("repeated words")
    if set(languages) <= _NEGATIVE.keys():
        negative = [
            bool(_NEGATIVE[code].search(text)) for code, text in zip(languages, (source, translation), strict=True)
        ]
        if negative[0] != negative[1]:
            found.append("negation on one side")
    if set(_FOREIGN_NAME.findall(source)) - set(_FOREIGN_NAME.findall(translation)):
        found.append("name lost")
    return found


def count_signs(pairs: Iterable[tuple[str, str]], languages: tuple[str, str]) -> Counter[str]:
    """Count the signs of pairs of a source and its translation."""
    return Counter(sign for source, translation in pairs for sign in find_signs(source, translation, languages))


def _repeats(text: str) -> int:
    """Count the words or phrases that stand twice in a row."""
    return sum(match[1].lower() not in _REFLEXIVE for match in _REPEATED.finditer(text))
