"""Glossary terms on their way through two models: in the pivot language, a code word stands for each translation.

Both models read and write a placeholder instead of the code word. The code word has capitals where the term would have
them, so terms found in the first model's translation are written as after a single model.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import regex

from service.text.glossary import EMPTY_GLOSSARY, MAX_ENTRIES, Finder, Glossary
from service.text.segment import Term

# Deseret: a dead script with small and capital letters.
_LETTERS: Final = [chr(code) for code in range(0x10428, 0x10450)]
_LENGTH: Final = 3
_CODE_WORD: Final = regex.compile(rf"[\U00010400-\U0001044f]{{{_LENGTH}}}")
assert len(_LETTERS) ** _LENGTH >= MAX_ENTRIES


class PivotFinders(NamedTuple):
    """Finds a glossary's terms for the first model, and their code words for the second."""

    first: Finder
    second: Finder


def pivot_finders(glossary: Glossary) -> PivotFinders:
    """Split a glossary from source to target into the finders of both steps."""
    if not len(glossary):
        return PivotFinders(EMPTY_GLOSSARY, EMPTY_GLOSSARY)
    return PivotFinders(_TermFinder(glossary), _CodeWordFinder(glossary))


class _TermFinder:
    """Translates a glossary's terms into code words."""

    def __init__(self, glossary: Glossary) -> None:
        self._glossary = glossary

    def find(self, text: str, beginnings: Sequence[int] = (0,)) -> Iterator[Term]:
        for term in self._glossary.find(text, beginnings):
            word = _code_word(self._glossary.numbers[term.translation])
            yield term._replace(translation=word, as_placeholder=True)


class _CodeWordFinder:
    """Translates code words into a glossary's translations."""

    def __init__(self, glossary: Glossary) -> None:
        self._translations = glossary.translations

    def find(self, text: str, beginnings: Sequence[int] = (0,)) -> Iterator[Term]:
        for found in _CODE_WORD.finditer(text):
            number = _decode(found[0].lower())
            if number < len(self._translations):
                start, end = found.span()
                translation = self._translations[number]
                yield Term(start, end, translation, capitals=found[0].isupper(), as_placeholder=True)


def _code_word(number: int) -> str:
    """Encode a translation's number; all words have one length, so that two side by side are still two."""
    letters = []
    for _ in range(_LENGTH):
        number, letter = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[letter])
    return "".join(letters)


def _decode(word: str) -> int:
    """Invert `_code_word`."""
    return sum(_LETTERS.index(letter) * len(_LETTERS) ** place for place, letter in enumerate(word))
