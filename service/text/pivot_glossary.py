"""Terms of a glossary on their way through two models: in the language between, a word of no language stands for each.

Both models read and write a stand-in in its place. The word has capitals where the term would have them, so what is
found behind the first model is written as it would be behind a single one.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import regex

from service.text.glossary import MAX_ENTRIES, NOTHING, Finder, Glossary
from service.text.segment import Term

# Those of Deseret, which nobody writes any more, and which has small and capital letters.
_LETTERS: Final = [chr(code) for code in range(0x10428, 0x10450)]
_LENGTH: Final = 3
_WORD: Final = regex.compile(rf"[\U00010400-\U0001044f]{{{_LENGTH}}}")
assert len(_LETTERS) ** _LENGTH >= MAX_ENTRIES


class Halves(NamedTuple):
    """What finds terms for the first model, and what finds what it has made of them for the second."""

    first: Finder
    second: Finder


def halves(glossary: Glossary) -> Halves:
    """Of a glossary of the whole way."""
    if not len(glossary):
        return Halves(NOTHING, NOTHING)
    return Halves(_First(glossary), _Second(glossary))


class _First:
    def __init__(self, glossary: Glossary) -> None:
        self._glossary = glossary

    def find(self, text: str, beginnings: Sequence[int] = (0,)) -> Iterator[Term]:
        for term in self._glossary.find(text, beginnings):
            word = _word(self._glossary.numbers[term.translation])
            yield term._replace(translation=word, is_halfway=True)


class _Second:
    def __init__(self, glossary: Glossary) -> None:
        self._translations = glossary.translations

    def find(self, text: str, beginnings: Sequence[int] = (0,)) -> Iterator[Term]:
        for found in _WORD.finditer(text):
            number = _number(found[0].lower())
            if number < len(self._translations):
                start, end = found.span()
                translation = self._translations[number]
                yield Term(start, end, translation, capitals=found[0].isupper(), is_halfway=True)


def _word(number: int) -> str:
    """All are of the same length, so that two side by side are still two."""
    letters = []
    for _ in range(_LENGTH):
        number, letter = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[letter])
    return "".join(letters)


def _number(word: str) -> int:
    """That whose word it is."""
    return sum(_LETTERS.index(letter) * len(_LETTERS) ** place for place, letter in enumerate(word))
