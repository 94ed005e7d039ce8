"""A single way to write apostrophes, spaces before marks, and first letters, for all corpora.

Corpora disagree: nearly all French apostrophes of one are curly and of another straight, and a model that has seen both
writes either. Knows no files and no tokens.
"""

import re
from typing import Final

_SPACES: Final = re.compile("[\u00a0\u2009\u202f]")
_LANGUAGE_NOTE: Final = re.compile(r"^\(\s*\)\s*|\([A-Z]{2}\)\s*")
_PAGE_NOTE: Final = re.compile(r"\b\d{4,5}m\b\s*")
_LINE_BREAK: Final = re.compile(r" \\ ")
_DASH: Final = re.compile(r"^[—–-]\s*(?=\S)")
_FRENCH: Final = (
    (re.compile(r"(?<=[\w)»\"'%€])\s*([?!;]+)(?=\s|$|[\"»)])"), r" \1"),
    (re.compile(r"(?<=[^\W\d])\s*:(?=\s|$)|(?<=[)»\"])\s*:(?=\s|$)"), " :"),
    (re.compile(r"«\s*(?=\S)"), "« "),
    (re.compile(r"(?<=\S)\s*»"), " »"),
)


def tidy(source: str, target: str, languages: tuple[str, str]) -> tuple[str, str]:
    """Normalise a pair's punctuation; remove transcript and page notes."""
    sides = [_plain(side, language) for side, language in zip((source, target), languages, strict=True)]
    # A dash that opens speech on one side alone.
    if bool(_DASH.match(sides[0])) != bool(_DASH.match(sides[1])):
        sides = [_DASH.sub("", side) for side in sides]
    if sides[0][:1].isupper() and sides[1][:1].islower() and sides[1].split()[0] not in sides[0].split():
        sides[1] = sides[1][:1].upper() + sides[1][1:]
    return sides[0], sides[1]


def _plain(text: str, language: str) -> str:
    before = text
    text = _SPACES.sub(" ", text).replace("’", "'")
    text = _LINE_BREAK.sub(" ", _PAGE_NOTE.sub("", _LANGUAGE_NOTE.sub("", text)))
    if language.partition("-")[0] == "fr":
        for pattern, replacement in _FRENCH:
            text = pattern.sub(replacement, text)
    return text.strip() or before
