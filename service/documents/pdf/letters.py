"""Letters gathered into fragments of lines. Knows no PDF."""

import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from typing import Final, NamedTuple

_COMBINING: Final = 0x301, 0x300, 0x308, 0x302, 0x303, 0x327, 0x30C, 0x306, 0x30A, 0x304, 0x307, 0x30B, 0x328
_ACCENTS: Final = dict(zip("´`¨ˆ˜¸ˇ˘˚¯˙˝˛", map(chr, _COMBINING), strict=True))
_DOTLESS: Final = {"ı": "i", "ȷ": "j"}
_GAP: Final = 1.0
"""The widest gap between the letters of a fragment, in ems."""


class Style(NamedTuple):
    """The look of some letters, as far as a translation keeps it."""

    bold: bool = False
    italic: bool = False
    fixed: bool = False
    raised: bool = False
    link: str = ""


Run = tuple[str, Style]


def between(first: Style, second: Style) -> Style:
    """Return the style of a space between two runs: it is no part of a link."""
    return second if first.link else first


@dataclass(slots=True)
class Fragment:
    """Neighbouring letters on one baseline. Coordinates run to the right and down, with the text upright."""

    left: float
    right: float
    baseline: float
    size: float
    runs: list[Run]

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.runs)

    def append(self, text: str, style: Style) -> None:
        if self.runs[-1][1] == style:
            self.runs[-1] = self.runs[-1][0] + text, style
        else:
            self.runs.append((text, style))

    def replace_last(self, letters: str) -> None:
        """Replace the last letter."""
        text, style = self.runs[-1]
        self.runs[-1] = text[:-1] + letters, style


class Letter(NamedTuple):
    """A letter on its line."""

    text: str
    left: float
    right: float
    baseline: float
    size: float
    angle: int
    """The direction of the line in degrees."""

    def stands_over(self, other: "Letter") -> bool:
        """Return True if the letters share much of their widths, as a letter and its accent do."""
        shared = min(self.right, other.right) - max(self.left, other.left)
        return shared > 0 and shared > 0.5 * min(self.right - self.left, other.right - other.left)

    @property
    def is_right_to_left(self) -> bool:
        return self.text > "\u0590" and unicodedata.bidirectional(self.text) in ("R", "AL")


class Gatherer:
    """The letters of a page, added in the order of its content."""

    def __init__(self) -> None:
        self.fragments: dict[int, list[Fragment]] = defaultdict(list)
        """By the angle at which they run."""
        self._seen: set[tuple[str, int, int]] = set()
        self._current: Fragment | None = None
        self._before = Letter("", 0.0, 0.0, 0.0, 0.0, 0)

    def add(self, letter: Letter, style: Style, *, has_space: bool) -> None:
        """Add a letter to the last fragment, after a space if there is one, or begin another."""
        current, before = self._current, self._before
        if current is None or letter.angle != before.angle or not _continues(current, letter):
            self.end()
            self._current, self._before = Fragment(*letter[1:5], [(letter.text, style)]), letter
            return
        self._before = letter
        is_over = letter.stands_over(before)
        if is_over and (accented := _accented(before.text, letter.text)):
            current.replace_last(accented)
        elif is_over and letter.is_right_to_left and before[1:] == letter[1:]:
            # PDFium gives the letters of a ligature from left to right.
            current.replace_last(letter.text + before.text)
        else:
            turns = letter.text.isalpha() and letter.is_right_to_left != before.is_right_to_left
            if (has_space or (turns and _distance(current, letter) > 0.1)) and not unicodedata.combining(letter.text):
                current.append(" ", between(current.runs[-1][1], style))
            current.append(letter.text, style)
        current.left, current.right = min(letter.left, current.left), max(letter.right, current.right)
        if current.size != letter.size and len(current.text) < 4:
            current.size = letter.size  # not that of a bullet

    def end(self) -> None:
        """Complete the last fragment."""
        if self._current is not None and not self._is_repeated(self._current):
            self.fragments[self._before.angle].append(self._current)

    def _is_repeated(self, found: Fragment) -> bool:
        """Return True for a text that was drawn twice at one place, to look bold or to have a shadow."""
        near = 0.15 * found.size
        text, x, y = found.text, round(found.left / near), round(found.baseline / near)
        is_repeated = any((text, x + dx, y + dy) in self._seen for dx in (-1, 0, 1) for dy in (-1, 0, 1))
        self._seen.add((text, x, y))
        return is_repeated


def _continues(current: Fragment, letter: Letter) -> bool:
    em = max(current.size, letter.size)
    is_level = abs(letter.baseline - current.baseline) < 0.12 * em and abs(letter.size - current.size) < 0.15 * em
    return is_level and _distance(current, letter) * letter.size < _GAP * em


def _distance(current: Fragment, letter: Letter) -> float:
    """Return the gap between a fragment and a letter on either side, in ems."""
    return max(letter.left - current.right, current.left - letter.right) / letter.size


def _accented(first: str, second: str) -> str:
    """Join a letter and an accent that was drawn over it, as old fonts need it; "" for other characters."""
    letter, accent = (second, first) if first in _ACCENTS else (first, second)
    if accent not in _ACCENTS or not letter.isalpha():
        return ""
    joined = unicodedata.normalize("NFC", _DOTLESS.get(letter, letter) + _ACCENTS[accent])
    return joined if len(joined) == 1 else ""
