"""Running headers, footers and page numbers: lines at the edges of pages that repeat from page to page."""

import itertools
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import regex

from service.documents.pdf.layout import Row, rows_of
from service.documents.pdf.pages import Page

_DEPTH: Final = 4
"""Lines at the top and at the bottom of a page that may be running ones."""
_OFTEN: Final = 3
_FEW_PAGES: Final = 4
_LONGEST: Final = 200
_TITLE: Final = 1.3
"""The least size of a title, compared with the text's: titles are not running lines."""
_APART: Final = 1.2
"""The least distance between running lines and the text, compared with that of lines."""
_PAGE_NUMBER: Final = regex.compile(r"[0-9]+|^[ivxlc]+(?=\s|$)|(?<=\s)[ivxlc]+$")
_NUMBER: Final = regex.compile(r"[0-9]{1,4}")


_Offset = tuple[int, int] | None


class _Edge(NamedTuple):
    """A line at the edge of a page."""

    row: Row
    key: tuple[str, int]
    """Its text without numbers and its place, which running lines have in common."""
    offset: _Offset
    """For a number: its distance from the page's number, and its place."""
    is_apart: bool
    """True if there is a gap between it and the next line inwards."""


def remove_running_lines(pages: Sequence[Page]) -> list[str]:
    """Remove running lines from pages, except what stands nowhere else. Returns the texts that are gone."""
    edges = [list(_edges(page)) for page in pages]
    common = Counter(key for sides in edges for key in {each.key for side in sides for each in side})
    offsets = Counter(found for sides in edges for found in {each.offset for side in sides for each in side})
    removed: set[int] = set()
    texts: dict[str, list[Row]] = {}
    for sides in edges:
        for side in sides:
            running = [*itertools.takewhile(lambda each: _is_running(each, common, offsets, len(pages)), side)]
            while running and not running[-1].is_apart:
                running.pop()
            for each in running:
                if each.offset is None or offsets[each.offset] < 2:
                    texts.setdefault(each.key[0], []).append(each.row)
                removed.update(map(id, each.row))
    kept = _nowhere_else(pages, removed, texts)
    for page in pages:
        if page.directions:
            fragments, rules = page.directions[0]
            fragments = [each for each in fragments if id(each) not in removed or id(each) in kept]
            page.directions[0] = fragments, rules
    return [_text(first) for first, *_ in texts.values() if id(first[0]) not in kept]


def _nowhere_else(pages: Sequence[Page], removed: set[int], texts: dict[str, list[Row]]) -> set[int]:
    """Return the fragments of the first of equal running lines, if their text stands nowhere else."""
    left = (
        each.text for page in pages for fragments, _ in page.directions for each in fragments if id(each) not in removed
    )
    others = regex.sub(r"\W+", " ", " ".join(left).casefold())
    equal = (first for first, *more in texts.values() if all(_text(row) == _text(first) for row in more))
    rows = (row for row in equal if regex.sub(r"\W+", " ", _text(row).casefold()).strip() not in others)
    return {id(fragment) for row in rows for fragment in row}


def _is_running(edge: _Edge, common: Counter[tuple[str, int]], offsets: Counter[_Offset], pages: int) -> bool:
    if edge.offset is not None and offsets[edge.offset] > 1:
        return True
    is_often = common[edge.key] >= _OFTEN or (common[edge.key] > 1 and pages <= _FEW_PAGES)
    return is_often and any(map(str.isalpha, edge.key[0]))


def _edges(page: Page) -> Iterator[list[_Edge]]:
    """Yield the outermost lines at the top and at the bottom, from the edge inwards."""
    fragments = page.directions[0][0] if page.directions else []
    rows = list(rows_of(fragments))
    if len(rows) < 2:
        return
    usual = statistics.median(each.size for each in fragments for _ in each.text)
    gaps = sorted(below[0].baseline - above[0].baseline for above, below in itertools.pairwise(rows))
    leading = gaps[len(gaps) // 4]
    for inwards in (rows, rows[::-1]):
        side = []
        for row, following in itertools.pairwise(inwards[: _DEPTH + 1]):
            if max(each.size for each in row) >= _TITLE * usual:
                break
            gap = abs(following[0].baseline - row[0].baseline)
            side.append(_edge(row, page.number, is_apart=gap > _APART * leading))
        yield side


def _edge(row: Row, page: int, *, is_apart: bool) -> _Edge:
    text = _text(row).casefold()
    bare = regex.sub(r"\W+", "", text)
    common = _PAGE_NUMBER.sub("#", text)[:_LONGEST]
    place = row[0].baseline
    offset = (int(bare) - page, round(place / 10)) if _NUMBER.fullmatch(bare) else None
    return _Edge(row, (common, round(place / 6)), offset, is_apart)


def _text(row: Row) -> str:
    return " ".join(each.text for each in row)
