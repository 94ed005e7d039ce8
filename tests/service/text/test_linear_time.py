"""Splitting and placing tags take time in proportion to the length of the text, counted in steps, not seconds."""

import pytest
import sentencex

from service.text.segment import Segment
from service.text.splitter import Splitter
from tests.service.text.patterns import PATTERNS, WORK, fits, repeat
from tests.service.text.steps import steps_of

_CHARACTERS = 8000
_MOST_GROWTH = 2.2
_FEW_STEPS = 1000


def _steps(text: str, kind: str) -> int:
    return steps_of(lambda: [*WORK[kind](text, Splitter(fits))])


# Text is split in HTML, too.
@pytest.mark.parametrize("kind", ["html", "placed tags", pytest.param("text", marks=pytest.mark.slow)])
@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: ascii(pattern[:12]))
def test_twice_the_text_takes_twice_the_steps(pattern: str, kind: str) -> None:
    text = repeat(pattern, _CHARACTERS)
    once, twice = _steps(text, kind), _steps(2 * text, kind)
    assert twice <= _MOST_GROWTH * once + _FEW_STEPS


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: ascii(pattern[:12]))
def test_the_model_s_limit_is_tried_on_few_characters(pattern: str) -> None:
    """Each try encodes its characters: in quadratic time they would be far more."""
    tried = 0

    def noted(segment: Segment) -> bool:
        nonlocal tried
        tried += len(segment.model_input().text)
        return fits(segment)

    text = repeat(pattern, 20_000)
    assert "".join(segment.text for segment in Splitter(noted).split(text, "en")) == text
    assert tried < 10 * len(text)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: ascii(pattern[:12]))
def test_only_short_chunks_are_searched_for_sentences(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search takes quadratic time: 20,000 opening quotation marks would take 0.2 s."""
    searched = [0]

    def noted(language: str, text: str) -> list[str]:
        searched.append(len(text))
        return list(sentencex.segment(language, text))

    monkeypatch.setattr("service.text.sentences.split_sentences", noted)
    text = repeat(pattern, 20_000)
    assert "".join(segment.text for segment in Splitter(fits).split(text, "en")) == text
    assert max(searched) <= 4000
