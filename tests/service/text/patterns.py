"""Texts made to be slow to split, and the work that has to take time in proportion to their length."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from service.text.html import split_html
from service.text.markup.tag_placement import place_marks
from service.text.segment import Aligned, Segment
from service.text.splitter import Splitter

PATTERNS: Final = (
    *"\"`«“('x猫ก-&😀\t\n",
    *("<?", "‹!", "?!", "Mr. ", "A.", "A. ", "a.b ", "1. ", ", ", "word ", "「", "。", "猫。", "\u0301"),
    *("猫{x}", "x{a}", "{{", "%s", "a@b.", "@a", "://", "http://a(", "www.a", "[A"),
    *("<", "</", "<a ", "<a b='", "<a b='>' ", "<x/>", "<code>", "<b>a</i>", "- a\n", "a\t", "A B ", "a-"),
    *("<!--", "<b>", "</b>", "<b></b>", "<b>a</b> ", "<i>a", "<p>x", "<b>猫", "<code>x</code>a ", "<div translate=no>"),
    *("{x}a<b>", "猫<b>{x}</b>", '<img alt="a b">', "“a.” "),
    *("<br>", "a<br>", "a <b></b>", "<a href=x>a</a> ", "<a href=x></a>", "<i><b>a</b></i> ", "</b>a<b>"),
    *("&amp;", "&x"),
    *("x" * 1999 + " ", "x" + " " * 1999, "x" * 2001 + " " * 4000, "x" * 2001 + "猫{x}" * 200),
)
"""Repeated to any length: quotation marks without an end, text without a place to cut, tags and terms side by side."""
_MOST_TOKENS: Final = 400  # characters stand for tokens here: what matters is that there is a limit

_WORD: Final = re.compile(r"\s*\S+|\s+")


def _placed(text: str, splitter: Splitter) -> Iterator[object]:
    """Place the tags of each sentence in a translation that repeats its words."""
    for segment in split_html(text, "en", splitter):
        if segment.marks:
            words = [Aligned(word[0], word.end() - len(word[0].lstrip())) for word in _WORD.finditer(segment.sentence)]
            yield place_marks(segment.sentence, segment.marks, words)


Work = Callable[[str, Splitter], Iterator[object]]
WORK: Final[dict[str, Work]] = {
    "text": lambda text, splitter: splitter.split(text, "en"),
    "html": lambda text, splitter: split_html(text, "en", splitter),
    "placed tags": _placed,
}


def repeat(pattern: str, characters: int) -> str:
    """Return a text of about so many characters."""
    return pattern * max(1, characters // len(pattern))


def fits(segment: Segment) -> bool:
    """Stand in for a model that reads a limited number of tokens."""
    return len(segment.model_input().text) <= _MOST_TOKENS
