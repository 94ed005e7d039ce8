"""Runs to sentences: a run is text with inline tags, of HTML or of any other markup."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from service.text.markup.source_map import Fragment, PlacedTag, SourceMap, tags_outside, with_source
from service.text.markup.tokenizer import Token, TokenKind
from service.text.segment import Encoding, Mark, Segment
from service.text.splitter import Splitter


def copied_segment(raw: str) -> Segment:
    return Segment(raw, "", "", translatable=False)


def split_run(
    run: Sequence[Fragment], language: str, splitter: Splitter, encoding: Encoding = "html"
) -> Iterator[Segment]:
    """Split a run of text and inline tags into sentences."""
    source_map = SourceMap(run)
    position = ended = 0
    trailing: list[PlacedTag] = []
    for found in splitter.sentences(source_map.text, language, source_map.copied_terms()):
        start = position + len(found.before)
        end = start + len(found.sentence)
        position += len(found.text)
        if not found.sentence:
            continue
        before, own = source_map.take_tags_before(start), source_map.take_tags_of_sentence(end)
        first, last = inner_range(own, start, end)
        inner = own[first:last]
        terms = [with_source(source_map, term, start, inner) for term in found.terms]
        yield found._replace(
            before=source_map.raw(ended, start, [*trailing, *before, *own[:first]]),
            after="",
            raw=source_map.raw(start, end, inner),
            terms=terms,
            marks=to_marks(tags_outside(found.terms, start, inner), start, end - start),
            encoding=encoding,
        )
        ended, trailing = end, own[last:]
    length = len(source_map.text)
    yield copied_segment(source_map.raw(ended, length, [*trailing, *source_map.take_tags_before(length + 1)]))


_DEEPEST: Final = 50  # nested elements


def partners_of(tags: Iterable[Token]) -> dict[int, int]:
    """Map the index of each opening tag to that of its closing tag, and back."""
    partners: dict[int, int] = {}
    open_tags: list[tuple[int, str]] = []
    names: Counter[str] = Counter()
    for number, token in enumerate(tags):
        if token.kind is TokenKind.OPEN and not token.is_empty:
            open_tags.append((number, token.name))
            names[token.name] += 1
        elif token.kind is TokenKind.CLOSE and names[token.name]:
            # Tags opened since then were never closed and have no partner.
            while number not in partners:
                last, name = open_tags.pop()
                names[name] -= 1
                if name == token.name:
                    partners[number], partners[last] = last, number
    return partners


def inner_range(tags: Sequence[PlacedTag], start: int, end: int) -> tuple[int, int]:
    """Return the range of tags inside a sentence; tags around the whole sentence or at one of its ends are outside."""
    partners = partners_of(tag.token for tag in tags)

    def is_paired_at(number: int, *places: int) -> bool:
        return number not in partners or tags[partners[number]].place in places

    first, last = 0, len(tags)
    while first < last and tags[first].place == start and is_paired_at(first, start, end):
        first += 1
    while last > first and tags[last - 1].place == end and (is_paired_at(last - 1, end) or partners[last - 1] < first):
        last -= 1
    return first, last


def to_marks(tags: Sequence[PlacedTag], offset: int, length: int) -> list[Mark]:
    """Convert the tags of a sentence of `length` characters to nested marks.

    An element that ends behind the sentence is a mark up to its end, and its closing tag stays there. Any other tag
    without a partner, or nested too deep, is a mark by itself.
    """
    partners = partners_of(tag.token for tag in tags)
    levels: list[list[Mark]] = [[]]
    opened: list[PlacedTag] = []

    def close(place: int, closing: str) -> None:
        inside, opening = levels.pop(), opened.pop()
        levels[-1].append(Mark(opening.place - offset, place, opening.token.raw, closing, inside))

    for number, tag in enumerate(tags):
        partner, place = partners.get(number), tag.place - offset
        is_open = tag.token.kind is TokenKind.OPEN and not tag.token.is_empty
        if is_open and len(levels) <= _DEEPEST:
            opened.append(tag)
            levels.append([])
        elif partner is None or is_open or tags[partner] not in opened:
            levels[-1].append(Mark(place, place, tag.token.raw))
        else:
            while opened[-1] is not tags[partner]:
                close(place, "")
            close(place, tag.token.raw)
    while opened:
        close(length, "")
    return levels[0]
