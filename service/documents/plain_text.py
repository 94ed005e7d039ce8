"""Plain texts: paragraphs are recognised by the lengths of their lines, and wrapped again."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, groupby, pairwise
from textwrap import wrap
from typing import Final

import regex

from service.documents.paragraph import ReadOptions
from service.documents.passages import Passage
from service.text.splitter import BULLET

_NUMBERING: Final = regex.compile(
    r"\s*+(?:[-*+•‣◦·–—>]++\s++|(?:\(?(?:[0-9]{1,3}(?:\.[0-9]{1,3}){0,4}|[IVXLC]{1,6}|[ivx]{1,5}|[A-Za-z])[.)]|§\s?[0-9]+)\s++)++"
)
"""The marks before a heading or an item of a list, also `I.` and `b)`."""
_QUOTE: Final = regex.compile(r"(?:>[ \t]?)++")
_GAP: Final = regex.compile(r"(?<=\S)(?:[ ]{3,}+|[ ]{2}(?=\S+(?:[ ]\S+)?(?:[ ]{2}|$))|\t++)(?=\S)")
"""The white space between two columns."""
_SENTENCE_END: Final = regex.compile(r"[.!?:;。！？…][\"'”»’)\]]*$")
_SHORTEST_WRAP: Final = 20
_LONGEST_WRAP: Final = 120
"""Widths of lines that a person wrapped; longer lines are paragraphs."""
_LONG: Final = 40
_MOST_CAPITALS: Final = 4
"""At least each fourth line of a wrapped paragraph begins within a sentence, and without a capital."""


def read_plain_text(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read paragraphs. Lines that were wrapped are translated together; columns are translated one by one."""
    lines = text.splitlines(keepends=True)
    placed = zip(accumulate(map(len, lines), initial=0), lines, strict=False)
    for is_blank, block in groupby(placed, lambda line: line[1].isspace()):
        if not is_blank:
            yield from _block([*block])


def _block(lines: Sequence[tuple[int, str]]) -> Iterator[Passage]:
    """Read the lines between two blank lines."""
    width = max(len(line.rstrip()) for _, line in lines)
    breaks = [False] * len(lines)
    if _SHORTEST_WRAP <= width <= _LONGEST_WRAP and _has_words_in_lower_case([line for _, line in lines[1:]], width):
        breaks = [_is_wrapped(one, two, width) for (_, one), (_, two) in pairwise(lines)] + [False]
    first = 0
    for number, is_wrapped in enumerate(breaks, 1):
        if not is_wrapped:
            yield from _paragraph(lines[first:number], width)
            first = number


def _has_words_in_lower_case(lines: Sequence[str], width: int) -> bool:
    """Return True if enough lines go on within a sentence; verses and lists begin with capitals."""
    beginnings = [line.lstrip(" \t>")[:1] for line in lines]
    inside = sum(not (each.isupper() or each.isdigit()) for each in beginnings)
    return bool(lines) and (_MOST_CAPITALS * inside >= len(lines) or (len(lines) == 1 and width >= _LONG))


def _is_wrapped(line: str, following: str, width: int) -> bool:
    """Return True if a line was broken because the next word had no room in it."""
    quote, other = _QUOTE.match(line), _QUOTE.match(following)
    if (quote[0].strip() if quote else "") != (other[0].strip() if other else ""):
        return False
    rest = following[other.end() if other else 0 :]
    if not rest.strip() or _NUMBERING.match(rest) or _GAP.search(line.strip()) or _GAP.search(rest.strip()):
        return False
    word, length = rest.split(maxsplit=1)[0], len(line.rstrip())
    has_no_room = length + 1 + len(word) > width
    if _SENTENCE_END.search(line.rstrip()):
        return has_no_room and not rest[:1].isspace()
    return has_no_room or (word[0].islower() and 2 * length > width)


def _paragraph(lines: Sequence[tuple[int, str]], width: int) -> Iterator[Passage]:
    start, first = lines[0]
    quote = _QUOTE.match(first)
    marks = _NUMBERING.match(first, quote.end() if quote else 0)
    bullet = marks or BULLET.match(first)
    begin = bullet.end() if bullet else quote.end() if quote else len(first) - len(first.lstrip())
    if len(lines) == 1:
        yield from _columns(first, start, begin)
        return
    second = lines[1][1]
    indent = second[: len(second) - len(second.lstrip(" \t>"))]
    words = " ".join([first[begin:].strip(), *(line.strip(" \t>\r\n") for _, line in lines[1:])])
    newline = "\r\n" if first.endswith("\r\n") else "\n"
    last_start, last = lines[-1]

    wrapped = partial(_wrapped, width=width, begin=begin, newline=newline, indent=indent)
    yield Passage((start + begin, last_start + len(last.rstrip())), words, wrapped)


def _columns(line: str, start: int, begin: int) -> Iterator[Passage]:
    """Read the columns of a line; the next column stays where it is if there is room."""
    bare = line.rstrip()
    gaps = [found.span() for found in _GAP.finditer(bare, begin)]
    if not gaps:
        yield Passage((start + begin, start + len(bare)), bare[begin:])
        return
    for (_, column), (end, following) in pairwise([(begin, begin), *gaps, (len(bare), len(bare))]):
        gap = bare[end:following]
        pad = partial(_padded, gap=gap, room=following - column)
        yield Passage((start + column, start + following), bare[column:end], pad, context="cell")


def _padded(text: str, gap: str, room: int) -> str:
    """Return the text of a column with the white space after it."""
    return text + gap if "\t" in gap or not gap else f"{text.ljust(room - 1)} "


def _wrapped(text: str, width: int, begin: int, newline: str, indent: str) -> str:
    """Wrap a text to lines of a width; the first one begins after `begin` characters."""
    lines = wrap(
        text,
        width,
        initial_indent=" " * begin,
        subsequent_indent=indent,
        expand_tabs=False,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return newline.join(lines)[begin:]
