"""The blocks of a PDF: headings, paragraphs, items of lists, code and tables, each with its text in runs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import regex

from service.documents.pdf.layout import Grid, Line
from service.documents.pdf.letters import Run, Style
from service.documents.pdf.paragraphs import HYPHEN, ITEM, LEADERS, Paragraph, Paragraphs

_WORD: Final = regex.compile(r"\w+(?:-\w+)*")
_FIRST_WORD: Final = regex.compile(r"\w+")
_CJK: Final = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}，。、）（「」！？]")
_OPEN_ADDRESS: Final = regex.compile(r"https?://\S*[/_=&?.-]\Z")
_MOST_LEVELS: Final = 4
_LETTER_WIDTH: Final = 0.6
"""Of a font for code, in ems."""


@dataclass(slots=True)
class Block:
    """A paragraph of a document or the like."""

    kind: Literal["heading", "paragraph", "item", "code", "table"]
    runs: list[Run] = field(default_factory=list)
    level: int = 1
    """Of a heading or an item, from 1."""
    marker: str = ""
    """Of an item, such as a bullet or `2.`"""
    rows: list[list[list[Run]]] = field(default_factory=list)
    """Of a table: the runs of each cell."""

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.runs)


def blocks_of(lines: Sequence[Line | Grid]) -> list[Block]:
    """Join the lines of all pages, in reading order, to blocks."""
    paragraphs = Paragraphs(lines)
    joiner = _Joiner(lines)
    sizes = {
        round(each.size) for each in paragraphs.found if isinstance(each, Paragraph) and paragraphs.is_heading(each)
    }
    levels = {size: min(level, _MOST_LEVELS) for level, size in enumerate(sorted(sizes, reverse=True), 1)}
    blocks: list[Block] = []
    indents: list[float] = []
    for each in paragraphs.found:
        if isinstance(each, Grid):
            block = Block("table", rows=[[joiner.joined(cell) for cell in row] for row in each.rows])
        elif each.is_code:
            block = _code(each.lines)
        elif paragraphs.is_heading(each):
            plain = [(text, style._replace(bold=False)) for text, style in joiner.joined(each.lines)]
            block = Block("heading", plain, levels[round(each.size)])
        else:
            block = _item_or_paragraph(joiner.joined(each.lines), each, indents)
        if block.kind != "item":
            indents = []
        if block.rows or block.text.strip():
            blocks.append(block)
    return blocks


def _code(lines: Sequence[Line]) -> Block:
    left = min(each.left for each in lines)
    indents = (round((each.left - left) / (_LETTER_WIDTH * each.size)) for each in lines)
    text = "\n".join(" " * indent + each.text for indent, each in zip(indents, lines, strict=True))
    return Block("code", [(text, Style(fixed=True))])


def _item_or_paragraph(runs: list[Run], found: Paragraph, indents: list[float]) -> Block:
    """Make an item of a text that begins with a marker; `indents` are those of the items that it may be part of."""
    text = "".join(text for text, _ in runs)
    marker = ITEM.match(text)
    if marker is None or not any(map(str.isalnum, text[marker.end() :])):
        return Block("paragraph", runs)
    first, size = found.lines[0], found.size
    left = first.left - first.edges[0]
    while indents and left < indents[-1] - size / 2:
        indents.pop()
    if not indents or left > indents[-1] + size / 2:
        indents.append(left)
    return Block("item", _without(runs, marker.end()), len(indents), marker[0].strip())


class _Joiner:
    """Joins lines; the words of the document tell which hyphens at the ends of lines belong to words."""

    def __init__(self, lines: Iterable[Line | Grid]) -> None:
        self._words = Counter(
            word for each in lines if isinstance(each, Line) for word in _WORD.findall(each.text.lower())
        )

    def joined(self, lines: Sequence[Line]) -> list[Run]:
        """Return the text of lines as one paragraph, without the hyphens that only end lines."""
        runs: list[Run] = []
        for line in lines:
            if runs:
                text, style = runs[-1]
                runs[-1] = self._with_border(text.rstrip(), line.text), style
            runs += [run for run in line.runs if run[0]]
        return _tidied(runs)

    def _with_border(self, before: str, after: str) -> str:
        """Return the end of a line as it stands before the beginning of the next one."""
        hyphen, word = HYPHEN.search(before), _FIRST_WORD.match(after)
        if hyphen and word:
            whole = self._words[f"{hyphen[1]}{word[0]}".lower()]
            divided = self._words[f"{hyphen[1]}-{word[0]}".lower()]
            is_unknown = whole == divided and word[0][0].islower() and "-" not in hyphen[1]
            return before[:-1] if whole > divided or is_unknown else before
        is_without_space = (_CJK.match(before[-1:]) and _CJK.match(after[:1])) or _OPEN_ADDRESS.search(before)
        return before if is_without_space else f"{before} "


def _without(runs: Sequence[Run], length: int) -> list[Run]:
    """Return runs without their first characters."""
    left: list[Run] = []
    for text, style in runs:
        if rest := text[length:]:
            left.append((rest, style))
        length = max(0, length - len(text))
    return left


def _tidied(runs: Iterable[Run]) -> list[Run]:
    """Join runs of one style. A run without letters has the style of the text before it."""
    tidy: list[Run] = []
    for text, style in runs:
        text = LEADERS.sub("\t", text)
        if tidy and not any(map(str.isalnum, text)) and not tidy[-1][1].raised:
            style = tidy[-1][1]
        if tidy and tidy[-1][1] == style:
            tidy[-1] = tidy[-1][0] + text, style
        else:
            tidy.append((text, style))
    return [(regex.sub(r" {2,}", " ", text), style) for text, style in tidy]
