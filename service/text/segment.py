"""What a text is taken apart into."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

_TWO_LETTERS: Final = re.compile(r"[^\W\d_]{2}")


class Segment(NamedTuple):
    """A sentence, with what precedes and follows it in the text and is no part of it: white space, a bullet."""

    before: str
    sentence: str
    after: str
    translatable: bool = True
    """Whether there is anything to translate in it; otherwise it is copied."""
    capitals: bool = False
    """Whether it is translated in lower case, and its translation written in capitals."""

    @property
    def text(self) -> str:
        """The part of the text that it stands for."""
        return self.before + self.sentence + self.after

    @property
    def source(self) -> str:
        """What a model gets to read; each character stands for the one of the sentence at its place."""
        return _sentence_case(self.sentence) if self.capitals else self.sentence

    def written(self, text: str) -> str:
        """What becomes of a part of its translation; of parts, one by one, the same as of all."""
        return text.upper() if self.capitals else text


Fits = Callable[[Segment], bool]
"""Whether a model takes so long a sentence."""


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


def _sentence_case(sentence: str) -> str:
    """In lower case but for the first letter."""
    first = next((place for place, character in enumerate(sentence) if character.isalpha()), 0)
    # A few capitals are two characters in lower case; they stay.
    return sentence[: first + 1] + "".join(
        lower if len(lower := character.lower()) == 1 else character for character in sentence[first + 1 :]
    )
