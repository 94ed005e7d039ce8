"""Lines and tables, the parts of a page's layout, and the rows of fragments that they are made of."""

import itertools
import statistics
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import regex

from service.documents.pdf.letters import Fragment, Run, between
from service.documents.pdf.pages import Rule

MARKER: Final = regex.compile(
    r"[•▪◦‣●○■□➢✓·*–—-]|(?:\d{1,3}|[a-z]|[ivx]{1,5}|[IVX]{1,5})[.)]|[A-Z]\)|\((?:\d{1,2}|[A-Za-z]|[ivxIVX]{1,5})\)|"
    r"\[[\w+-]{1,12}\]|\d{1,2}(?:\.\d{1,2})+\.?"
)
"""A bullet or a number at the beginning of an item or a heading."""
_NOTE: Final = regex.compile(r"[0-9]{1,3}|[*†‡]+")
_BARE_NUMBER: Final = regex.compile(r"\d{1,2}")
# Distances in ems.
_SAME_ROW: Final = 0.6
_MARKER_GAP: Final = 4.0
_SPACE_GAP: Final = 0.15
_TAB_GAP: Final = 2.0
_COLUMN_GAP: Final = 0.4
"""The narrowest gap between the columns of a table."""
_WRAPPED: Final = 1.35
"""The largest distance between the lines of a cell."""
_SMALL: Final = 0.85
"""The largest size of raised letters, notes and the like, compared with the text's."""
_DROP_CAP: Final = 2.0
_WRAPPED_LINES: Final = 3
"""Lines of most cells, at most."""

Row = list[Fragment]
"""Fragments on one level of a page, from left to right."""


@dataclass(slots=True)
class Line(Fragment):
    """A line of text in a column."""

    column: int
    edges: tuple[float, float]
    """The places where the lines of the column begin and end."""


@dataclass(slots=True)
class Grid:
    """A table: rows of cells with lines."""

    rows: list[list[list[Line]]]


def rows_of(fragments: Iterable[Fragment]) -> Iterator[Row]:
    """Yield the fragments on each level of a page, from the top; columns are not told apart."""
    row: Row = []
    largest: Fragment | None = None
    for each in sorted(fragments, key=lambda each: each.baseline):
        if largest is not None and not _is_level(largest, each):
            yield sorted(row, key=lambda each: each.left)
            row, largest = [], None
        largest = each if largest is None or each.size > largest.size else largest
        row.append(each)
    if row:
        yield sorted(row, key=lambda each: each.left)


def _is_level(first: Fragment, second: Fragment) -> bool:
    """Return True for fragments on one line, which may be raised or lowered."""
    small, large = sorted((first, second), key=lambda each: each.size)
    if not 0.4 * large.size < small.size < _SMALL * large.size:
        return abs(first.baseline - second.baseline) < _SAME_ROW * small.size
    height = large.baseline - small.baseline + 0.3 * small.size
    return -0.3 * large.size < height < 0.8 * large.size


def without_drop_caps(fragments: Sequence[Fragment]) -> list[Fragment]:
    """Put initials that are as high as some lines on the first of them."""
    usual = statistics.median(each.size for each in fragments)
    return [
        replace(
            each,
            baseline=each.baseline - 0.75 * (each.size - usual),
            size=usual,
            # Joined with the rest of its word, unless it may be a word.
            right=each.right + (0 if each.text in "AIO" else usual / 2),
        )
        if each.size > _DROP_CAP * usual and len(each.text) == 1 and each.text.isalpha()
        else each
        for each in fragments
    ]


def with_markers(row: Row) -> Row:
    """Join bullets and numbers with the text after them."""
    joined: Row = []
    for each in row:
        begins = len(joined) == 1 or (len(joined) > 1 and joined[-1].left - joined[-2].right > each.size)
        if begins and _is_marker(joined[-1], each):
            before = joined[-1]
            if before.size < _SMALL * each.size and _NOTE.fullmatch(before.text):
                before.runs = [(text, style._replace(raised=True)) for text, style in before.runs]
            runs = [*before.runs, (" ", between(before.runs[-1][1], each.runs[0][1])), *each.runs]
            joined[-1] = Fragment(before.left, each.right, each.baseline, each.size, runs)
        else:
            joined.append(each)
    return joined


def _is_marker(before: Fragment, text: Fragment) -> bool:
    marker = before.text.strip()
    is_small = before.size < _SMALL * text.size
    is_near = 0 <= text.left - before.right < _MARKER_GAP * text.size
    if not is_near or abs(text.baseline - before.baseline) > 0.5 * text.size:
        return False
    if is_small and _NOTE.fullmatch(marker):
        return True
    is_numbered = before.runs[0][1].bold and _BARE_NUMBER.fullmatch(marker)
    return bool(MARKER.fullmatch(marker) or is_numbered) and text.text[:1].isalpha()


def lines_of(rows: Sequence[Row], column: int) -> Iterator[Line]:
    """Yield the rows of a column as lines."""
    left = min(each.left for row in rows for each in row)
    ends = sorted((max(each.right for each in row) for row in rows), reverse=True)
    edges = left, ends[len(ends) // 20 + (len(ends) > 3)]  # a few lines may stick out
    for row in rows:
        main = max(row, key=lambda each: (each.right - each.left) * each.size)
        runs: list[Run] = []
        end = row[0].left
        for each in row:
            gap = (each.left - end) / main.size
            if gap > _SPACE_GAP and runs:
                runs.append(("\t" if gap > _TAB_GAP else " ", between(runs[-1][1], each.runs[0][1])))
            is_raised = each.size < _SMALL * main.size and each.baseline < main.baseline - 0.1 * main.size
            runs += [(text, style._replace(raised=style.raised or is_raised)) for text, style in each.runs]
            end = each.right
        yield Line(row[0].left, max(each.right for each in row), main.baseline, main.size, runs, column, edges)


def grid_of(rows: Sequence[Row], rules: Sequence[Rule]) -> Grid:
    """Return the table in rows of text; wrapped lines are joined to their cells."""
    borders = _borders(rows)
    ys = sorted({rule.y for rule in rules if 2 * sum(rule.left < x < rule.right for x in borders) > len(borders)})
    top, bottom = rows[0][0].baseline, rows[-1][0].baseline
    inside = bisect_left(ys, bottom) - bisect_left(ys, top)
    is_ruled = inside >= 2 and inside * _WRAPPED_LINES >= len(rows) - 1
    grid = Grid([])
    before: Row | None = None
    for row in rows:
        cells: list[Row] = [[] for _ in range(len(borders) + 1)]
        for each in row:
            cells[bisect_left(borders, min((each.left + each.right) / 2, each.left + 2 * each.size))].append(each)
        written = [list(lines_of([cell], 0)) if cell else [] for cell in cells]
        if before is not None and _is_same_row(before, row, cells, ys if is_ruled else None):
            for whole, more in zip(grid.rows[-1], written, strict=True):
                whole += more
        else:
            grid.rows.append(written)
        before = row
    return grid


def _borders(rows: Sequence[Row]) -> list[float]:
    """Return the places between the columns: those that almost no row covers."""
    left = min(each.left for row in rows for each in row)
    right = max(each.right for row in rows for each in row)
    covered = [0] * (int(right - left) + 2)
    for row in rows:
        bins = {place for each in row for place in range(int(each.left - left), int(each.right - left) + 1)}
        for place in bins:
            covered[place] += 1
    size = statistics.median(each.size for row in rows for each in row)
    borders = []
    place = 0
    for is_free, group in itertools.groupby(count <= len(rows) // 10 for count in covered):
        width = len(list(group))
        if is_free and width >= _COLUMN_GAP * size and 0 < place < len(covered) - width:
            borders.append(left + place + width / 2)
        place += width
    return borders


def _is_same_row(before: Row, row: Row, cells: Sequence[Row], ys: Sequence[float] | None) -> bool:
    """Return True if a row of text continues the cells of the row before it; `ys` are the lines between rows."""
    if any(each.text[:1].isdigit() for each in row):
        return False
    if ys is not None:
        return bisect_left(ys, before[0].baseline) == bisect_left(ys, row[0].baseline)
    return not cells[0] and row[0].baseline - before[0].baseline < _WRAPPED * max(row[0].size, before[0].size)
