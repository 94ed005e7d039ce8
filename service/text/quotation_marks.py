"""Spaces at straight quotation marks: a model that reads « Suivant » may write " Next" for "Next"."""

from typing import Final

_MARKS: Final = frozenset('"“”„«»')
_OPENS_AFTER: Final = frozenset(" \u00a0([")


class OpeningMarks:
    """Removes spaces behind straight marks that open a quotation, from a translation that comes in parts."""

    def __init__(self, sentence: str) -> None:
        self.is_needed = not _MARKS.isdisjoint(sentence)
        """False if the sentence that is translated has no such marks."""
        self._is_open = False
        self._before = "  "
        """The last two characters."""

    def push(self, text: str) -> str:
        """Return the next part of the text without such spaces."""
        if not self.is_needed:
            return text
        kept = []
        for character in text:
            if self._is_open and self._before[1] == '"' and character == " ":
                continue
            if character == '"':
                # 12" and 12 " are no quotations.
                opens = self._before[1] in _OPENS_AFTER and not self._before[0].isdigit()
                self._is_open = opens and not self._is_open
            self._before = self._before[1] + character
            kept.append(character)
        return "".join(kept)
