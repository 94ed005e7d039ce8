"""Splitting takes time in proportion to the length of the text, counted in steps instead of seconds."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import sentencex

import service.text
from loadtest.checks.patterns import PATTERNS, SPLITS, fits, repeat
from service.text.splitter import Splitter

_FOLDER = str(Path(service.text.__file__).parent)
_CHARACTERS = 8000
_MOST_GROWTH = 2.2
_FEW_STEPS = 1000


def _steps(text: str, kind: str) -> int:
    """Count the lines of service/text that run, each turn of a loop by itself."""
    steps = 0

    def trace_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += 1
        return trace_line

    def trace_call(frame: FrameType, event: str, argument: Any) -> Any:
        return trace_line if frame.f_code.co_filename.startswith(_FOLDER) else None

    before = sys.gettrace()
    sys.settrace(trace_call)
    try:
        for _ in SPLITS[kind](text, Splitter(fits)):
            pass
    finally:
        sys.settrace(before)
    return steps


@pytest.mark.parametrize("kind", SPLITS)
@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: ascii(pattern[:12]))
def test_twice_the_text_takes_twice_the_steps(pattern: str, kind: str) -> None:
    text = repeat(pattern, _CHARACTERS)
    once, twice = _steps(text, kind), _steps(2 * text, kind)
    assert twice <= _MOST_GROWTH * once + _FEW_STEPS


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
