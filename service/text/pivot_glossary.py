"""Glossary terms on their way through two models: in the pivot language, a code word stands for each translation.

Both models read and write a placeholder instead of the code word. The code word has capitals where the term would have
them, so terms found in the first model's translation are written as after a single model.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import regex

from service.text.glossary import MAX_ENTRIES, Finder, Glossary
from service.text.segment import Term

# Deseret: a dead script with small and capital letters.
_LETTERS: Final = [chr(code) for code in range(0x10428, 0x10450)]
_LENGTH: Final = 3
_CODE_WORD: Final = regex.compile(rf"[\U00010400-\U0001044f]{{{_LENGTH}}}")
assert len(_LETTERS) ** _LENGTH >= MAX_ENTRIES


def pivot_finders(glossary: Glossary) -> tuple[Finder, Finder]:
    """Return the finders of a glossary's terms for the first model, and of their code words for the second."""

    def find_terms(text: str, beginnings: Sequence[int]) -> Iterator[Term]:
        for term in glossary.find(text, beginnings):
            word = _code_word(glossary.numbers[term.translation])
            yield term._replace(translation=word, as_placeholder=True)

    def find_code_words(text: str, beginnings: Sequence[int]) -> Iterator[Term]:
        for found in _CODE_WORD.finditer(text):
            number = _decode(found[0].lower())
            if number < len(glossary.translations):
                start, end = found.span()
                translation = glossary.translations[number]
                yield Term(start, end, translation, capitals=found[0].isupper(), as_placeholder=True)

    return find_terms, find_code_words


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
