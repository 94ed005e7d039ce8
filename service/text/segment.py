"""What a text is taken apart into, and what a model gets to read of it."""

import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Final, Literal, NamedTuple

_TWO_LETTERS: Final = re.compile(r"[^\W\d_]{2}")

STAND_IN: Final = "X"
"""What a model reads in the place of what is copied. Of the words that were tried it disturbs the rest least."""


class Term(NamedTuple):
    """Characters of a sentence, from `start` up to `end`, whose translation is known."""

    start: int
    end: int
    translation: str
    is_copy: bool = False
    """Whether it is no word: then a stand-in is read in its place, and its translation is written as it is."""
    capitals: bool = False
    """Whether its translation is written in capitals."""
    is_halfway: bool = False
    """Whether it is a word that goes through two models (`pivot_glossary`): a stand-in is read in its place, too."""

    @property
    def has_stand_in(self) -> bool:
        """Whether that is what a model reads and writes."""
        return self.is_copy or self.is_halfway


class Mark(NamedTuple):
    """A tag in a sentence: around its characters from `start` up to `end`, or where both are the same, between two."""

    start: int
    end: int
    opening: str
    closing: str = ""
    inside: Sequence["Mark"] = ()
    """What it holds, in the order of the sentence."""


Encoding = Literal["plain", "html", "attribute"]
"""How characters are written: as they are, or where they would be markup, as references."""


class Reading(NamedTuple):
    """What a model reads of a segment."""

    text: str
    terms: Sequence[tuple[int, int]]
    """Where each of its segment's terms is, from and up to."""
    originals: Sequence[tuple[int, int]]
    """Where those are in the sentence."""
    replaced: Sequence[tuple[int, int]]
    """Where what is read in their places is, with the spaces around it that the sentence does not have."""

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Which characters of the sentence a part of the text stands for."""
        first, last = start, end
        for term, replaced, written in zip(self.terms, self.replaced, self.originals, strict=True):
            if start >= replaced[0]:
                first = written[0] if start < term[1] else max(start - replaced[1], 0) + written[1]
            if end > replaced[0]:
                last = written[1] if end <= replaced[1] else end - replaced[1] + written[1]
        return first, last


class Segment(NamedTuple):
    """A sentence, with what precedes and follows it in the text and is no part of it: white space, a bullet."""

    before: str
    sentence: str
    after: str
    translatable: bool = True
    """Whether there is anything to translate in it; otherwise it is copied."""
    capitals: bool = False
    """Whether it is translated in lower case, and its translation written in capitals."""
    terms: Sequence[Term] = ()
    """In the order of the sentence; none overlap."""
    marks: Sequence[Mark] = ()
    """In the order of the sentence, those aside that are in others."""
    encoding: Encoding = "plain"
    raw: str | None = None
    """The sentence as it is written, if otherwise."""
    lead: str = ""
    """What its translation has to be parted by from the one before: no part of the text."""

    @property
    def text(self) -> str:
        """The part of the text that it stands for."""
        return self.before + (self.sentence if self.raw is None else self.raw) + self.after

    @property
    def copy(self) -> str:
        """What is written where it is not translated."""
        return self.lead + self.text

    def reading(self) -> Reading:
        sentence = _sentence_case(self.sentence) if self.capitals else self.sentence
        words, done = "", 0
        places: list[tuple[int, int]] = []
        replaced: list[tuple[int, int]] = []
        for term in self.terms:
            words += sentence[done : term.start]
            start = len(words)
            # A model reads XusX as a word.
            before, after = sentence[: term.start][-1:], sentence[term.end :][:1]
            words += " " if term.has_stand_in and joins(before) and done < term.start else ""
            inside = STAND_IN if term.has_stand_in else sentence[term.start : term.end]
            places.append((len(words), len(words) + len(inside)))
            words += inside + (" " if term.has_stand_in and joins(after) else "")
            replaced.append((start, len(words)))
            done = term.end
        originals = [(term.start, term.end) for term in self.terms]
        return Reading(words + sentence[done:], places, originals, replaced)

    def written(self, text: str) -> str:
        """What becomes of a part of its translation; of parts, one by one, the same as of all."""
        text = text.upper() if self.capitals else text
        return text if self.encoding == "plain" else escape(text, quote=self.encoding == "attribute")


Fits = Callable[[Segment], bool]
"""Whether a model takes so long a sentence."""


def segment_of(part: str, terms: Sequence[Term], *, restore_capitals: bool) -> Segment:
    """A part of a text, and what its terms are there, as a segment."""
    sentence = part.strip()
    before = part[: part.index(sentence)]
    inside = [term._replace(start=term.start - len(before), end=term.end - len(before)) for term in terms]
    words = _without_copies(sentence, inside)
    return Segment(
        before,
        sentence,
        part[len(before) + len(sentence) :],
        translatable=has_words(words),
        capitals=restore_capitals and is_in_capitals(words),
        terms=inside,
    )


def joins(character: str) -> bool:
    """Whether what touches it is of the same word, in a script that has spaces between words."""
    return character.isdigit() or character.lower() != character.upper()


def has_words(text: str) -> bool:
    """Numbers, emoji and punctuation alone are none."""
    return any(character.isalpha() for character in text)


def is_in_capitals(sentence: str) -> bool:
    """Whether it has several words, not all of a single letter, and no letter that is not a capital.

    One such word is most often an acronym, which is left as it is.
    """
    # The cheapest question first: most sentences are not.
    return (
        sentence.isupper() and sum(map(has_words, sentence.split())) > 1 and _TWO_LETTERS.search(sentence) is not None
    )


def _without_copies(sentence: str, terms: Sequence[Term]) -> str:
    parts, done = [], 0
    for term in terms:
        if term.is_copy:
            parts.append(sentence[done : term.start])
            done = term.end
    return " ".join([*parts, sentence[done:]])


def _sentence_case(sentence: str) -> str:
    """In lower case but for the first letter; every character stays at its place."""
    first = next((place for place, character in enumerate(sentence) if character.isalpha()), 0)
    # A few capitals are two characters in lower case; they stay.
    return sentence[: first + 1] + "".join(
        lower if len(lower := character.lower()) == 1 else character for character in sentence[first + 1 :]
    )
