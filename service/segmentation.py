"""Texts to sentences and back, without losing a space.

Every character of a text belongs to exactly one segment: as its sentence, or as white space around it.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from sentencex import segment as split_sentences

_LONGEST_PIECE: Final = 2000
_SENTENCE_ENDS: Final = (". ", "! ", "? ", "。", "！", "？")


class Segment(NamedTuple):
    """A sentence, with white space that precedes and follows it in the text."""

    before: str
    sentence: str
    after: str

    @property
    def translatable(self) -> bool:
        """Whether there is a word in it: numbers, emoji and punctuation alone are copied as they are."""
        return any(character.isalpha() for character in self.sentence)


def split(text: str, language: str) -> list[Segment]:
    """Sentences of `text`, line by line; joined as `before + sentence + after` they give `text` back."""
    segments: list[Segment] = []
    for line in text.splitlines(keepends=True):
        for part in _sentences(line, language):
            sentence = part.strip()
            start = part.index(sentence)
            found = Segment(part[:start], sentence, part[start + len(sentence) :])
            if sentence or not segments:
                segments.append(found)
            else:
                # White space alone joins the segment before it.
                last = segments.pop()
                segments.append(last._replace(after=last.after + part))
    return segments


def _sentences(line: str, language: str) -> Iterator[str]:
    """sentencex takes quadratic time on a long line, so it gets it in pieces, cut behind a sentence if possible."""
    while line:
        cut = len(line)
        if cut > _LONGEST_PIECE:
            ends = (line.rfind(mark, 0, _LONGEST_PIECE) + len(mark) for mark in _SENTENCE_ENDS if mark in line[:cut])
            cut = max(ends, default=0) or line.rfind(" ", 0, _LONGEST_PIECE) + 1 or _LONGEST_PIECE
        yield from split_sentences(language, line[:cut])
        line = line[cut:]
