"""Words that a model cannot write, found by its tokenizer and by the scripts of its languages; they are copied.

A model that reads the bytes of a letter writes other bytes: "Modrić" became "Modri mebrin".
"""

import unicodedata
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

import regex

from service.text.sentences import is_unspaced

# Signs that models have read so often, if only as bytes, that they translate them ("Terms & Conditions", 20 °C): all
# of ASCII except the backslash and the grave accent, and quotation marks and dashes, which differ between languages.
_KNOWN: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[]^_{|}~€£°§")
_QUOTES_AND_DASHES: Final = frozenset({"Pd", "Pi", "Pf", "Ps", "Pe"})
_INVISIBLE: Final = frozenset("CZ")
_LETTERS: Final = frozenset("LM")
_CLUSTER: Final = regex.compile(r"\P{M}\p{M}+")
# The characters of a word with a backslash or a grave accent, as in a path or a command.
_RUN: Final = regex.compile(r"\S*+")
_FINAL: Final = ".,;:!?…)]}»”’\"'"


@dataclass(frozen=True)
class Unwritable:
    """Finds the words that a model cannot write.

    `foreign` finds letters of scripts that neither language uses (`foreign_letters`); `unspelled` returns those
    characters of a text that the tokenizer has no piece for (`Tokenizer.unspelled`).
    """

    foreign: regex.Pattern[str] | None = None
    unspelled: Callable[[str], Collection[str]] = lambda text: ()

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of the words; they may overlap."""
        if self.foreign is not None and not text.isascii():
            yield from (match.span() for match in self.foreign.finditer(text))
        if marks := {each for each in self.unspelled(text) if _is_copied(each)}:
            yield from _words(text, marks - self._composed(text, marks))

    def _composed(self, text: str, characters: Collection[str]) -> set[str]:
        """Return the accents that the tokenizer reads as a part of their letter: é may be two characters."""
        accents = {each for each in characters if unicodedata.combining(each)}
        clusters = [unicodedata.normalize("NFC", each[0]) for each in _CLUSTER.finditer(text)] if accents else []
        unread = {accent for each in clusters if self.unspelled(each) for accent in unicodedata.normalize("NFD", each)}
        return accents - unread


def _is_copied(character: str) -> bool:
    category = unicodedata.category(character)
    return character not in _KNOWN and category not in _QUOTES_AND_DASHES and category[0] not in _INVISIBLE


def _words(text: str, characters: Collection[str]) -> Iterator[tuple[int, int]]:
    """Yield the words around the given characters, in order."""
    done = 0
    for place, character in enumerate(text):
        if place >= done and character in characters:
            start, done = _word(text, place, done)
            yield start, done


def _word(text: str, place: int, first: int) -> tuple[int, int]:
    """Return the word around `place`, from `first` on: letters and digits, or a run without spaces, or a sign alone."""
    if text[place] in "\\`":
        start = place
        while start > first and not text[start - 1].isspace():
            start -= 1
        run = _RUN.match(text, place)
        assert run is not None
        return start, start + len(text[start : run.end()].rstrip(_FINAL))
    joins = _is_of_a_word if unicodedata.category(text[place])[0] in _LETTERS else str.isdigit
    start, end = place, place + 1
    while start > first and joins(text[start - 1]):
        start -= 1
    while end < len(text) and joins(text[end]):
        end += 1
    return start, end


def _is_of_a_word(character: str) -> bool:
    return (character.isalnum() or bool(unicodedata.combining(character))) and not is_unspaced(character)
