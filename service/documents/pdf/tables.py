"""The cells of a table, from the gaps between its texts and the lines drawn between its rows."""

import itertools
import statistics
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from service.documents.pdf.layout import Grid, Row, lines_of
from service.documents.pdf.pages import Rule

_GAP: Final = 0.4
"""The narrowest gap between columns."""
_WRAPPED: Final = 1.35
"""The largest distance between the lines of a cell. Both in ems."""
_WRAPPED_LINES: Final = 3
"""Lines of most cells, at most."""
_MOST_BINS: Final = 20_000


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
    covered = [0] * min(int(right - left) + 2, _MOST_BINS)
    for row in rows:
        bins = {place for each in row for place in range(int(each.left - left), int(each.right - left) + 1)}
        for place in bins:
            if place < len(covered):
                covered[place] += 1
    size = statistics.median(each.size for row in rows for each in row)
    borders = []
    place = 0
    for is_free, group in itertools.groupby(count <= len(rows) // 10 for count in covered):
        width = len(list(group))
        if is_free and width >= _GAP * size and 0 < place < len(covered) - width:
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
