"""Repairs of the punctuation of a translation that comes in parts: quotation marks, and the mark at its end."""

from collections.abc import Iterable, Sequence
from typing import Final

from service.text.segment import Aligned

_QUOTATION_MARKS: Final = frozenset('"“”„«»')
_OPENS_AFTER: Final = frozenset(" \u00a0([")
_LONGEST_ENDING: Final = len("etc")


class OpeningMarks:
    """Sets the spaces behind marks that open a quotation, in a translation that comes in parts.

    A model that reads « Suivant » may write " Next" for "Next", and one that reads "Next" may write «Suivant ».
    """

    def __init__(self, sentence: str, *, is_french: bool = False) -> None:
        self.is_needed = not _QUOTATION_MARKS.isdisjoint(sentence)
        """False if the sentence that is translated has no such marks."""
        self._is_french = is_french
        self._is_open = False
        self._before = "  "
        """The last two characters."""

    def push(self, text: str) -> str:
        """Return the next part of the text."""
        if not self.is_needed:
            return text
        kept = []
        for character in text:
            if self._is_open and self._before[1] == '"' and character == " ":
                continue
            if self._is_french and self._before[1] == "«" and not character.isspace():
                kept.append("\u00a0")
            if character == '"':
                # 12" and 12 " are no quotations.
                opens = self._before[1] in _OPENS_AFTER and not self._before[0].isdigit()
                self._is_open = opens and not self._is_open
            self._before = self._before[1] + character
            kept.append(character)
        return "".join(kept)


class FinalExclamation:
    """Ends a translation with the exclamation mark of its sentence where a model wrote a full stop.

    Of an order, "Viens !", small models make a statement.
    """

    def __init__(self, sentence: str, *, is_french: bool = False) -> None:
        self.is_needed = sentence.endswith("!")
        """False if the sentence that is translated has no exclamation mark at its end."""
        self._mark = "\u00a0!" if is_french else "!"
        self._held: Sequence[Aligned] = ()
        self._before = ""
        """The last characters."""

    @property
    def holds_text(self) -> bool:
        """True while a full stop may be the last."""
        return bool(self._held)

    def push(self, parts: Iterable[Aligned], *, is_last: bool) -> list[Aligned]:
        """Add parts of the translation and return those that are final."""
        parts = [part for part in (*self._held, *parts) if part.text]
        self._held = ()
        text = self._before + "".join(part.text for part in parts)
        if self.is_needed and parts and text.endswith(".") and not text.endswith(("..", "etc.")):
            last = parts.pop()
            parts.append(last._replace(text=last.text[:-1] + self._mark * is_last))
            self._held = () if is_last else (last._replace(text="."),)
            text = text[:-1]
        self._before = text[-_LONGEST_ENDING:]
        return parts
