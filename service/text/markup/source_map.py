"""The map from the text of a run to its source. A run is text and inline tags without a block tag between."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from html import unescape
from itertools import accumulate
from typing import Final, NamedTuple

import regex

from service.text.markup.tokenizer import Token, TokenKind
from service.text.segment import Term

OBJECT: Final = "\ufffc"
"""The character that stands for a copied element inside a sentence (Unicode's object replacement character)."""
_FRAGMENT: Final = regex.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});?|[^&]+|&")
_SPACES: Final = {ord(space): " " for space in "\t\n\f\r"}


class Fragment(NamedTuple):
    """A part of a run: its text and its source; a tag has no text."""

    text: str
    raw: str
    tag: Token | None = None


def parse_text(raw: str) -> Iterator[Fragment]:
    """Yield the fragments of a text without tags."""
    return map(_parse_fragment, _FRAGMENT.findall(raw))


def _parse_fragment(raw: str) -> Fragment:
    # White space keeps its length, so that positions stay; line ends of the source have no meaning.
    return Fragment(unescape(raw) if raw.startswith("&") else raw.translate(_SPACES), raw)


class PlacedTag(NamedTuple):
    """A tag and its position in the text of its run."""

    place: int
    token: Token


class SourceMap:
    """The text of a run, and the source of any part of it. Tags are taken from it in their order."""

    def __init__(self, run: Sequence[Fragment]) -> None:
        self._fragments = [fragment for fragment in run if fragment.tag is None]
        self._starts = list(accumulate((len(fragment.text) for fragment in self._fragments), initial=0))
        self.text = "".join(fragment.text for fragment in self._fragments)
        places = accumulate((len(fragment.text) for fragment in run), initial=0)
        self._tags = deque(
            PlacedTag(place, fragment.tag) for place, fragment in zip(places, run, strict=False) if fragment.tag
        )

    def take_tags_before(self, place: int) -> list[PlacedTag]:
        """Take the next tags, up to a position."""
        taken: list[PlacedTag] = []
        while self._tags and self._tags[0].place < place:
            taken.append(self._tags.popleft())
        return taken

    def take_tags_of_sentence(self, end: int) -> list[PlacedTag]:
        """Take the next tags, up to the end of a sentence; an opening tag there belongs to the next sentence."""
        taken = self.take_tags_before(end)
        while self._tags and self._tags[0].place == end and self._tags[0].token.kind is not TokenKind.OPEN:
            taken.append(self._tags.popleft())
        return taken

    def copied_terms(self) -> list[Term]:
        """Return a term for each copied element."""
        return [
            Term(start, start + 1, fragment.raw, is_copy=True)
            for start, fragment in zip(self._starts, self._fragments, strict=False)
            if fragment.text == OBJECT != fragment.raw
        ]

    def raw(self, start: int, end: int, tags: Sequence[PlacedTag] = ()) -> str:
        """Return the source of the characters from `start` to `end`, with the given tags."""
        parts: list[str] = []
        for tag in tags:
            parts += [*self._raw_parts(start, tag.place), tag.token.raw]
            start = max(start, tag.place)
        return "".join([*parts, *self._raw_parts(start, end)])

    def _raw_parts(self, start: int, end: int) -> Iterator[str]:
        number = bisect_right(self._starts, start) - 1
        while start < end:
            fragment, first = self._fragments[number], self._starts[number]
            last = min(end, first + len(fragment.text))
            # A character reference may stand for two characters, and is never cut.
            is_whole = len(fragment.raw) != len(fragment.text)
            if not is_whole:
                yield fragment.raw[start - first : last - first]
            elif start == first:
                yield fragment.raw
            start = last
            number += 1


def with_source(source_map: SourceMap, term: Term, offset: int, tags: Sequence[PlacedTag]) -> Term:
    """Replace the translation of a copied term by its source, including the tags in the middle of it.

    `tags` are those of the sentence, whose position is `offset`.
    """
    if not term.is_copy:
        return term
    first, last = _range_inside(tags, term, offset)
    return term._replace(translation=source_map.raw(offset + term.start, offset + term.end, tags[first:last]))


def tags_outside(terms: Iterable[Term], offset: int, tags: Sequence[PlacedTag]) -> list[PlacedTag]:
    """Return the tags that are not in the middle of a copied term; both are in the order of the text."""
    outside: list[PlacedTag] = []
    done = 0
    for term in terms:
        if term.is_copy:
            first, last = _range_inside(tags, term, offset)
            outside += tags[done:first]
            done = last
    return [*outside, *tags[done:]]


def _range_inside(tags: Sequence[PlacedTag], term: Term, offset: int) -> tuple[int, int]:
    """Return the range of the tags in the middle of a term."""
    first = bisect_right(tags, offset + term.start, key=lambda tag: tag.place)
    return first, bisect_left(tags, offset + term.end, first, key=lambda tag: tag.place)
