"""Texts to sentences and back, without losing a space.

Every character of a text belongs to exactly one segment: as its sentence, or as white space around it.
"""

from typing import NamedTuple

from sentencex import segment as split_sentences


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
        for part in split_sentences(language, line):
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
