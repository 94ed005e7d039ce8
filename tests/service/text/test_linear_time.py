"""Splitting and placing tags take time in proportion to the length of the text, counted in steps, not seconds."""

import re
from collections.abc import Callable, Iterator
from typing import Final

import pytest
import sentencex

from service.text.html import split_html
from service.text.markup.tag_placement import place_marks
from service.text.segment import Aligned, Segment
from service.text.splitter import Splitter
from tests.service.text.steps import steps_of

_PATTERNS: Final = (
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
_FEW_STEPS: Final = 1000
_WORD: Final = re.compile(r"\s*\S+|\s+")

each_pattern = pytest.mark.parametrize("pattern", _PATTERNS, ids=lambda pattern: ascii(pattern[:12]))


def _fits(segment: Segment) -> bool:
    """Stand in for a model that reads a limited number of tokens."""
    return len(segment.model_input().text) <= _MOST_TOKENS


def _split(text: str) -> Iterator[object]:
    return Splitter(_fits).split(text, "en")


def _placed(text: str) -> Iterator[object]:
    """Split HTML, and place the tags of each sentence in a translation that repeats its words."""
    for segment in split_html(text, "en", Splitter(_fits)):
        if segment.marks:
            words = [Aligned(word[0], word.end() - len(word[0].lstrip())) for word in _WORD.finditer(segment.sentence)]
            yield place_marks(segment.sentence, segment.marks, words)


def _repeat(pattern: str, characters: int) -> str:
    """Return a text of about so many characters."""
    return pattern * max(1, characters // len(pattern))


@pytest.mark.parametrize(
    ("work", "characters", "most_growth"),
    [
        (_placed, 4000, 2.5),  # the end of a text weighs more in a short one
        pytest.param(_placed, 8000, 2.2, marks=pytest.mark.slow),
        pytest.param(_split, 8000, 2.2, marks=pytest.mark.slow),
    ],
)
@each_pattern
def test_twice_the_text_takes_twice_the_steps(
    pattern: str, work: Callable[[str], Iterator[object]], characters: int, most_growth: float
) -> None:
    text = _repeat(pattern, characters)
    once, twice = steps_of(lambda: [*work(text)]), steps_of(lambda: [*work(2 * text)])
    assert twice <= most_growth * once + _FEW_STEPS


@each_pattern
def test_models_and_the_search_for_sentences_get_few_characters(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try of the model's limit encodes its characters: in quadratic time they would be far more.

    The search takes quadratic time: 20,000 opening quotation marks would take 0.2 s.
    """
    tried = 0
    searched = [0]

    def noted_try(segment: Segment) -> bool:
        nonlocal tried
        tried += len(segment.model_input().text)
        return _fits(segment)

    def noted_search(language: str, text: str) -> list[str]:
        searched.append(len(text))
        return list(sentencex.segment(language, text))

    monkeypatch.setattr("service.text.sentences.split_sentences", noted_search)
    text = _repeat(pattern, 20_000)
    assert "".join(segment.text for segment in Splitter(noted_try).split(text, "en")) == text
    assert tried < 10 * len(text)
    assert max(searched) <= 4000
