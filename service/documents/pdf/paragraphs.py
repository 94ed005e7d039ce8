"""The lines of a PDF joined to paragraphs, over the ends of columns and pages."""

import itertools
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import regex

from service.documents.pdf.layout import MARKER, Grid, Line

ITEM: Final = regex.compile(rf"(?:{MARKER.pattern})(?:\s+|\Z)(?!\Z)|[•▪◦‣●■□➢✓](?=\S)")
"""The beginning of an item of a list, with its marker."""
LEADERS: Final = regex.compile(r"\s*(?:[.…·_]\s?){4,}\s*(?=[\divxlcIVXLC]*\Z)")
"""The dots between a heading and its page in a table of contents."""
HYPHEN: Final = regex.compile(r"([\w-]*\w)[-‐]\Z")
_TERMINATED: Final = regex.compile(r"""[.!?:;。！？؟।][\s"'”’»)\]]*\Z""")
_BULLET: Final = regex.compile("[•▪◦‣●■□➢✓]")
_CAPTION: Final = regex.compile(r"(?i)(?:fig|tab|abb)")
_HEADING: Final = 1.15
"""The least size of a heading, compared with the body's."""
_HEADINGS_SHARE: Final = 0.25
"""The largest share of a document's letters that headings have."""
_FEW_LETTERS: Final = 200
_LONGEST_HEADING: Final = 200
_LONGEST_BOLD_HEADING: Final = 100
_WIDEST_INDENT: Final = 8.0
"""Of the first line of a paragraph, in ems."""
_RAGGED: Final = 0.35
"""The part of a column that a ragged line may leave free."""
_LONG: Final = 20
"""The least letters of a line that ends a column in the middle of a sentence."""
_LOOK_AHEAD: Final = 60
"""Paragraphs, such as notes and figures, that may stand between the parts of one that goes on in another column."""


@dataclass(slots=True)
class Paragraph:
    """The lines of a paragraph, a heading, an item of a list or a piece of code."""

    lines: list[Line]
    is_code: bool = False

    @property
    def last(self) -> Line:
        return self.lines[-1]

    @property
    def size(self) -> float:
        return self.lines[0].size


class Paragraphs:
    """The paragraphs of a document; what is usual in it decides what is a heading or code."""

    def __init__(self, lines: Sequence[Line | Grid]) -> None:
        texts = [each for each in lines if isinstance(each, Line)]
        letters: Counter[tuple[float, bool, bool]] = Counter()
        gaps: dict[tuple[int, int], list[float]] = {}
        for before, each in itertools.pairwise([None, *texts]):
            assert each is not None
            letters[round(each.size * 2) / 2, _is_bold(each), _is_fixed(each)] += len(each.text)
            if before is not None and before.column == each.column and _is_same_size(before, each):
                gaps.setdefault((each.column, round(each.size)), []).append(each.baseline - before.baseline)
        self._size, self._is_bold, self._is_fixed = letters.most_common(1)[0][0] if letters else (10.0, False, False)
        self._heading_size = _least_heading(letters, self._size)
        self._leadings = {key: statistics.median(found) for key, found in gaps.items()}
        self._narrow(texts)
        self.found = self._across_columns(self._joined(lines))

    def is_heading(self, found: Paragraph) -> bool:
        text = " ".join(each.text for each in found.lines)
        if found.is_code or len(text) > _LONGEST_HEADING or not any(map(str.isalpha, text)) or LEADERS.search(text):
            return False
        if found.size > self._heading_size:
            return True
        marker = ITEM.match(text)
        is_marked = all(map(_is_bold, found.lines)) and not self._is_bold and found.size > 0.95 * self._size
        is_numbered = marker is not None and any(map(str.isalnum, marker[0]))
        is_marked = is_marked or (marker is not None and is_numbered and text[marker.end() :].isupper())
        is_short = len(text) <= _LONGEST_BOLD_HEADING and len(found.lines) <= 2 and "\t" not in text
        return is_marked and is_short and not regex.search(r"[.,;:]\s*\Z", text)

    def _narrow(self, lines: Sequence[Line]) -> None:
        """Give justified lines that are narrower than their column, such as a quotation's, edges of their own."""
        group: list[Line] = []
        for each in [*lines, None]:
            if group and (each is None or not self._is_near(group[-1], each)):
                right = max(line.right for line in group)
                if sum(right - line.right < 0.3 * line.size for line in group) >= 3:
                    for line in group:
                        line.edges = line.edges[0], right
                group = []
            if each is not None:
                group.append(each)

    def _is_near(self, before: Line, line: Line) -> bool:
        gap = line.baseline - before.baseline
        return before.column == line.column and _is_same_size(before, line) and 0 < gap < 1.3 * self._leading(line)

    def _leading(self, line: Line) -> float:
        """Return the usual distance between lines like this one in its column."""
        return min(self._leadings.get((line.column, round(line.size)), 1.3 * line.size), 2.2 * line.size)

    def _joined(self, lines: Sequence[Line | Grid]) -> list[Paragraph | Grid]:
        found: list[Paragraph | Grid] = []
        for each in lines:
            last = found[-1] if found else None
            if isinstance(each, Grid):
                found.append(each)
            elif isinstance(last, Paragraph) and self._continues(last, each):
                last.lines.append(each)
            else:
                found.append(Paragraph([each], _is_fixed(each) and not self._is_fixed))
        return found

    def _continues(self, found: Paragraph, line: Line) -> bool:
        """Return True if a line belongs to the paragraph before it in its column."""
        before = found.last
        is_code = _is_fixed(line) and not self._is_fixed
        if before.column != line.column or not _is_same_size(before, line) or is_code != found.is_code:
            return False
        gap, leading = line.baseline - before.baseline, self._leading(line)
        if len(found.lines) > 1:
            leading = min(leading, before.baseline - found.lines[-2].baseline)
        if is_code:
            return 0 < gap < 2 * leading
        if not 0 < gap < 1.25 * leading + 0.5 or any(LEADERS.search(each.text) for each in (before, line)):
            return False
        if not any(map(str.isalnum, before.text)):
            return False
        is_heading, is_short = line.size > self._heading_size, _is_short(before, line)
        if _is_bold(before) != _is_bold(line) and (gap > 1.08 * leading or is_short):
            return False
        if (is_short and not is_heading) or _starts_item(found, line):
            return False
        return is_heading or not _is_indented(found, line)

    def _across_columns(self, found: list[Paragraph | Grid]) -> list[Paragraph | Grid]:
        """Join paragraphs that go on in another column or on another page."""
        joined: set[int] = set()
        for number, each in enumerate(found):
            if number in joined or isinstance(each, Grid) or each.is_code or self.is_heading(each):
                continue
            following: int | None = number
            while following is not None:
                following = self._continuation(found, following, each, joined)
                if following is not None and isinstance(more := found[following], Paragraph):
                    each.lines += more.lines
                    joined.add(following)
        return [each for number, each in enumerate(found) if number not in joined]

    def _continuation(
        self, found: Sequence[Paragraph | Grid], number: int, each: Paragraph, joined: set[int]
    ) -> int | None:
        """Return the number of the paragraph that continues another one in the next column; None if there is none."""
        text = each.last.text
        if _TERMINATED.search(text) or LEADERS.search(text):
            return None
        for following in range(number + 1, min(number + _LOOK_AHEAD, len(found))):
            other = found[following]
            if following in joined or isinstance(other, Grid) or other.is_code:
                continue
            first = other.lines[0]
            if not _is_same_size(each.last, first) or self.is_heading(other):
                continue
            if first.column == each.last.column:
                return None
            is_next = following == number + 1 and not _is_short(each.last, first)
            is_full = is_next and _is_bold(each.last) == _is_bold(first) and _is_full(each.last)
            starts = first.text[:1]
            goes_on = HYPHEN.search(text) or (starts.islower() and _is_long(each.last))
            if (goes_on or (is_full and starts.isalnum())) and not ITEM.match(first.text):
                return following
            if len(other.lines) > 1 and not _CAPTION.match(first.text):
                return None
        return None


def _least_heading(letters: Counter[tuple[float, bool, bool]], body: float) -> float:
    """Return the least size of headings: larger than the body's, and of few letters."""
    larger = 0
    for (size, *_), count in sorted(letters.items(), reverse=True):
        larger += count
        if larger > max(_HEADINGS_SHARE * letters.total(), _FEW_LETTERS):
            return max(_HEADING * body, size + 0.25)
    return _HEADING * body


def _is_bold(line: Line) -> bool:
    return all(style.bold for text, style in line.runs if any(map(str.isalnum, text)))


def _is_fixed(line: Line) -> bool:
    return all(style.fixed for text, style in line.runs if text.strip())


def _is_same_size(first: Line, second: Line) -> bool:
    return abs(first.size - second.size) < 0.08 * max(first.size, second.size)


def _is_full(line: Line) -> bool:
    return line.left < line.edges[0] + 2 * line.size and line.right > line.edges[1] - line.size


def _is_long(line: Line) -> bool:
    """Return True for a line that fills its column as far as a ragged one does."""
    left, right = line.edges
    return line.right - left > (1 - _RAGGED) * (right - left) and len(line.text) >= _LONG


def _is_short(before: Line, line: Line) -> bool:
    """Return True if the first word of a line would have fitted into the line before it."""
    word = len(line.text.split(maxsplit=1)[0]) if line.text.strip() else 0
    width = (line.right - line.left) * (word + 1) / max(len(line.text), 1)
    free, whole = before.edges[1] - before.right, before.edges[1] - before.edges[0]
    if not _TERMINATED.search(before.text) and (line.text[:1].islower() or line.text[:1].isdigit()):
        return free > max((_RAGGED if line.text[:1].islower() else _RAGGED / 2) * whole, width)
    return free > width + 0.3 * line.size


def _is_indented(found: Paragraph, line: Line) -> bool:
    """Return True if a line's beginning shows a new paragraph."""
    before = found.last
    shift = line.left - before.left
    if shift < -_WIDEST_INDENT * line.size:
        return True
    is_centred = abs(line.left + line.right - before.left - before.right) < 0.6 * line.size
    if is_centred and line.left - line.edges[0] > line.size:
        return False
    is_over = _TERMINATED.search(before.text) is not None
    if len(found.lines) > 1:
        goes_back = line.left - line.edges[0] < 0.5 * line.size and not is_over
        return shift > 0.8 * line.size or (shift < -0.8 * line.size and not goes_back)
    return shift > 0.8 * line.size and is_over and not ITEM.match(before.text)


def _starts_item(found: Paragraph, line: Line) -> bool:
    if line.runs[0][1].raised and found.lines[0].runs[0][1].raised:
        return True  # another note
    marker = ITEM.match(line.text)
    if marker is None:
        return False
    first = ITEM.match(found.lines[0].text)
    if _BULLET.match(line.text) or (first is not None and _shape(first[0]) == _shape(marker[0])):
        return True
    return _TERMINATED.search(found.last.text) is not None or line.left > found.last.left + line.size / 2


def _shape(marker: str) -> str:
    return "".join("9" if each.isdigit() else "a" if each.islower() else each for each in marker.strip())[-2:]
