"""The reading order of a page: columns one after another, tables row by row."""

import itertools
import statistics
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from service.documents.pdf.layout import Grid, Line, Row, grid_of, lines_of, rows_of, with_markers, without_drop_caps
from service.documents.pdf.letters import Fragment
from service.documents.pdf.pages import Rule

_GUTTER: Final = 0.7
"""The narrowest gutter between columns, in ems."""
_DEEPEST: Final = 12
_MOST_CANDIDATES: Final = 40
_PROSE_LETTERS: Final = 22
"""Letters in most lines of running text."""
_NOTE_LETTERS: Final = 15
"""Letters in most lines of notes in a margin."""
_SAMPLE: Final = 5_000

Runs = list[tuple[int, int]]
"""Beginnings and ends of runs of rows."""


def lines_in_order(
    fragments: Sequence[Fragment], rules: Sequence[Rule], columns: Iterator[int]
) -> Iterator[Line | Grid]:
    """Yield the lines and tables of a page in reading order. `columns` are numbers for its columns."""
    text = " ".join(each.text for each in fragments)[:_SAMPLE]
    found = Counter(map(unicodedata.bidirectional, text))
    if found["R"] + found["AL"] > found["L"]:
        # Mirrored, a page that runs from right to left is read like any other.
        fragments = [replace(each, left=-each.right, right=-each.left) for each in fragments]
        rules = [Rule(-each.right, -each.left, each.y) for each in rules]
    rows = [with_markers(row) for row in rows_of(without_drop_caps(fragments))]
    return _Arrangement(rules, columns).arrange(rows, 0)


class _Arrangement:
    """The columns and tables of a page, found by the gutters that many rows share."""

    def __init__(self, rules: Sequence[Rule], columns: Iterator[int]) -> None:
        self._rules = rules
        self._columns = columns

    def arrange(self, rows: Sequence[Row], depth: int) -> Iterator[Line | Grid]:
        """Yield the lines of rows in order, parts with a gutter column by column."""
        if not rows:
            return
        best = _best_gutter(rows) if depth < _DEEPEST and len(rows) > 1 else None
        if best is None:
            yield from lines_of(rows, next(self._columns))
            return
        x, runs = best
        done = 0
        for start, end in runs:
            yield from self.arrange(rows[done:start], depth + 1)
            yield from self._side_by_side(rows[start:end], x, depth)
            done = end
        yield from self.arrange(rows[done:], depth + 1)

    def _side_by_side(self, rows: Sequence[Row], x: float, depth: int) -> Iterator[Line | Grid]:
        if all(style.fixed for row in rows for each in row for _, style in each.runs):
            yield from lines_of(rows, next(self._columns))  # a program with its comments
        elif self._is_table(rows, x):
            first, last = _table_rows(rows, x)
            if first:
                yield from lines_of(rows[:first], next(self._columns))
            yield grid_of(rows[first:last], self._rules)
            yield from self.arrange(rows[last:], depth + 1)
        else:
            for between in self._between_rules(rows, x):
                for side in _sides(between, x):
                    yield from self.arrange([part for part in side if part], depth + 1)

    def _crossing(self, x: float) -> list[float]:
        return sorted(rule.y for rule in self._rules if rule.left < x < rule.right)

    def _is_table(self, rows: Sequence[Row], x: float) -> bool:
        sides = _sides(rows, x)
        are_prose = [*map(_is_prose, sides)]
        if all(are_prose):
            return False
        counts = [sum(map(bool, side)) for side in sides]
        both = sum(bool(left and right) for left, right in zip(*sides, strict=True))
        top, bottom = rows[0][0].baseline, rows[-1][0].baseline - 3
        crossing = {round(y) for y in self._crossing(x) if top < y < bottom}
        if not crossing and _have_other_sizes(sides):
            return False
        is_dense = any(are_prose) and min(counts) > 0.7 * max(counts) and max(counts) >= 8
        if len(crossing) >= (len(rows) / 4 if is_dense else 2) and both >= 0.2 * len(rows):
            return True
        return not is_dense and both >= 0.5 * min(counts)

    def _between_rules(self, rows: Sequence[Row], x: float) -> Iterator[Sequence[Row]]:
        """Divide rows of columns by the lines that cross their gutter, each with a heading right above it."""
        start = 0
        for y in self._crossing(x):
            end = sum(row[0].baseline < y for row in rows)
            if start < end < len(rows):
                last = rows[end - 1]
                end -= len(last) == 1 and y - last[0].baseline < last[0].size and end - 1 > start
                yield rows[start:end]
                start = end
        yield rows[start:]


def _sides(rows: Sequence[Row], x: float) -> tuple[list[Row], list[Row]]:
    """Return the parts of rows at both sides of a gutter; some may be empty."""
    return (
        [[each for each in row if each.left < x] for row in rows],
        [[each for each in row if each.left >= x] for row in rows],
    )


def _have_other_sizes(sides: Iterable[Sequence[Row]]) -> bool:
    """Return True for a text beside one of another size, such as notes in a margin."""
    fragments = [[each for row in side for each in row] for side in sides]
    first, second = (statistics.median(each.size for each in side) for side in fragments)
    letters = min(statistics.median(len(each.text) for each in side) for side in fragments)
    return abs(first - second) > 0.15 * max(first, second) and letters >= _NOTE_LETTERS


def _is_prose(rows: Iterable[Row]) -> bool:
    """Return True for lines that fill their columns as running text does."""
    widths: list[float] = []
    letters: list[int] = []
    for row in rows:
        end: float | None = None
        for each in row:
            if end is not None and each.left - end < 1.5 * each.size:
                widths[-1] += each.right - end
                letters[-1] += len(each.text)
            else:
                widths.append(each.right - each.left)
                letters.append(len(each.text))
            end = each.right
    if len(widths) < 3:
        return False
    full = sorted(widths)[len(widths) * 9 // 10]
    return statistics.median(letters) >= _PROSE_LETTERS and statistics.median(widths) >= 0.7 * full


def _best_gutter(rows: Sequence[Row]) -> tuple[float, Runs] | None:
    """Return the place of the gutter that divides most lines, and the runs of rows that it divides."""
    leftmost = min(each.left for row in rows for each in row)
    starts = Counter(round(each.left / 2) for row in rows for each in row if each.left > leftmost + each.size)
    grouped = Counter({start: count + starts[start + 1] for start, count in starts.items()})
    found = ((start * 2 - 1.5, *_divided(rows, start * 2 - 1.5)) for start, _ in grouped.most_common(_MOST_CANDIDATES))
    x, runs, score = max(found, key=lambda each: each[2], default=(0.0, [], 0))
    return (x, runs) if score else None


def _divided(rows: Sequence[Row], x: float) -> tuple[Runs, int]:
    """Return the runs of rows that a gutter at `x` divides, and the number of lines that stand beside others."""
    runs: Runs = []
    score = start = 0
    for is_crossed, group in itertools.groupby(any(each.left < x < each.right for each in row) for row in rows):
        end = start + len(list(group))
        if not is_crossed and (found := _run(rows, start, end, x)) is not None:
            runs.append(found[0])
            score += found[1]
        start = end
    return runs, score


def _run(rows: Sequence[Row], start: int, end: int, x: float) -> tuple[tuple[int, int], int] | None:
    lefts = [number for number in range(start, end) if rows[number][0].left < x]
    rights = [number for number in range(start, end) if rows[number][-1].left >= x]
    if len(lefts) < 2 or len(rights) < 2 or lefts[0] > rights[-1] or rights[0] > lefts[-1]:
        return None
    if any(_is_stray(numbers, end - start) for numbers in (lefts, rights)):
        return None
    size = statistics.median(each.size for number in range(start, end) for each in rows[number])
    inner = max(each.right for number in lefts for each in rows[number] if each.left < x)
    outer = min(each.left for number in rights for each in rows[number] if each.left >= x)
    if outer - inner < _GUTTER * size:
        return None
    last = max(lefts[-1], rights[-1])
    # A heading or the like under the columns, in rows that reach one column only.
    while end < len(rows) and last > min(lefts[-1], rights[-1]) and _is_apart(rows[last - 1], rows[last], size):
        last -= 1
    return (start, last + 1), min(len(lefts), len(rights))


def _is_stray(numbers: Sequence[int], count: int) -> bool:
    """Return True for a few lines, far from each other, at the side of others, such as the numbers of equations."""
    return len(numbers) < 0.2 * count and numbers[-1] - numbers[0] > 2 * len(numbers)


def _table_rows(rows: Sequence[Row], x: float) -> tuple[int, int]:
    """Return the range of rows that have cells on both sides, with wrapped lines after it."""
    both = [number for number, row in enumerate(rows) if row[0].left < x <= row[-1].left]
    last = both[-1] + 1
    while last < len(rows) and rows[last][0].baseline - rows[last - 1][0].baseline < 1.35 * rows[last][0].size:
        last += 1
    return both[0], last


def _is_apart(above: Row, below: Row, size: float) -> bool:
    return below[0].baseline - above[0].baseline > 1.9 * max(size, below[0].size)
