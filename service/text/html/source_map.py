"""How the text of HTML is written, and where tags are in it: a run is text and inline tags, up to a block's tag."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from html import unescape
from itertools import accumulate
from typing import Final, NamedTuple

import regex

from service.text.html.tokenizer import Kind, Token
from service.text.segment import Term

OBJECT: Final = "\ufffc"
"""Stands for what is kept in the middle of a sentence."""
_PIECE: Final = regex.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});?|[^&]+|&")
_SPACES: Final = {ord(space): " " for space in "\t\n\f\r"}


class Piece(NamedTuple):
    """A part of a run: what it says, and how that is spelled; a tag says nothing."""

    text: str
    raw: str
    tag: Token | None = None


def read(raw: str) -> Iterator[Piece]:
    """The pieces of a text."""
    return map(_read, _PIECE.findall(raw))


def _read(raw: str) -> Piece:
    # White space stays where it is, character by character; where the lines of the source end says nothing.
    return Piece(unescape(raw) if raw.startswith("&") else raw.translate(_SPACES), raw)


class Placed(NamedTuple):
    """A tag, and how many characters of its run are before it."""

    place: int
    token: Token


class Spelling:
    """A run's text, and how its parts are written."""

    def __init__(self, run: Sequence[Piece]) -> None:
        self._pieces = [piece for piece in run if piece.tag is None]
        self._starts = list(accumulate((len(piece.text) for piece in self._pieces), initial=0))
        self.text = "".join(piece.text for piece in self._pieces)
        places = accumulate((len(piece.text) for piece in run), initial=0)
        self._tags = deque(Placed(place, piece.tag) for place, piece in zip(places, run, strict=False) if piece.tag)

    def tags_before(self, place: int) -> list[Placed]:
        """The next ones, up to a place."""
        taken: list[Placed] = []
        while self._tags and self._tags[0].place < place:
            taken.append(self._tags.popleft())
        return taken

    def tags_of(self, end: int) -> list[Placed]:
        """The next ones, of a sentence; where the next one touches it, what is opened belongs to that."""
        taken = self.tags_before(end)
        while self._tags and self._tags[0].place == end and self._tags[0].token.kind is not Kind.OPEN:
            taken.append(self._tags.popleft())
        return taken

    def kept(self) -> list[Term]:
        return [
            Term(start, start + 1, piece.raw, is_copy=True)
            for start, piece in zip(self._starts, self._pieces, strict=False)
            if piece.text == OBJECT != piece.raw
        ]

    def raw(self, start: int, end: int, tags: Sequence[Placed] = ()) -> str:
        """How the characters from `start` up to `end` are written, with some of the tags in them."""
        parts: list[str] = []
        for tag in tags:
            parts += [*self._raw_parts(start, tag.place), tag.token.raw]
            start = max(start, tag.place)
        return "".join([*parts, *self._raw_parts(start, end)])

    def _raw_parts(self, start: int, end: int) -> Iterator[str]:
        number = bisect_right(self._starts, start) - 1
        while start < end:
            piece, first = self._pieces[number], self._starts[number]
            last = min(end, first + len(piece.text))
            # A character reference may stand for two characters, and is never cut.
            is_whole = len(piece.raw) != len(piece.text)
            if not is_whole:
                yield piece.raw[start - first : last - first]
            elif start == first:
                yield piece.raw
            start = last
            number += 1


def is_inside(tag: Placed, term: Term, offset: int) -> bool:
    return term.is_copy and offset + term.start < tag.place < offset + term.end


def spelled_term(spelling: Spelling, term: Term, offset: int, tags: Iterable[Placed]) -> Term:
    """What is copied, as it is written, with the tags in the middle of it."""
    if not term.is_copy:
        return term
    inside = [tag for tag in tags if is_inside(tag, term, offset)]
    return term._replace(translation=spelling.raw(offset + term.start, offset + term.end, inside))
