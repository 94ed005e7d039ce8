"""Lines of a text, and passages of joined lines: what formats of marked-up plain text share."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import regex

from service.documents.passages import Passage
from service.documents.tagged import Item
from service.errors import TooLong

_LINE: Final = regex.compile(r"[^\n]*+\n|[^\n]++")
_LONGEST: Final = 40_000
"""Characters of a paragraph: any number of them would take quadratic time."""


class Line(NamedTuple):
    start: int
    text: str
    """Without white space at its end."""

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip())


def lines_of(text: str, start: int = 0) -> list[Line]:
    """Return the lines of a text that begins at `start` of its document."""
    return [Line(start + found.start(), found[0].rstrip()) for found in _LINE.finditer(text)]


def check_length(paragraph: str) -> None:
    """Raise `TooLong` for a text whose marks would take too long to find."""
    if len(paragraph) > _LONGEST:
        raise TooLong("file", f"a paragraph has more than {_LONGEST} characters")


def joined(lines: Sequence[Line], begin: int, read: Callable[[str], list[Item]], context: str = "text") -> Passage:
    """Return the passage of a paragraph whose first line has its text from `begin` on. Raises `TooLong`."""
    text = " ".join([lines[0].text[begin:], *(line.text.strip() for line in lines[1:])])
    check_length(text)
    place = lines[0].start + begin, lines[-1].start + len(lines[-1].text)
    return Passage(place, context=context, items=read(text))
