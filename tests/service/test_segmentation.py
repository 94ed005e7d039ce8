import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.segmentation import split

TEXT = st.text(st.sampled_from("ab.!? \n\t\r\u00a0\u2028😀1-é"), max_size=60)


@given(text=TEXT)
def test_nothing_is_lost(text: str) -> None:
    segments = split(text, "en")
    assert "".join("".join(segment) for segment in segments) == text
    for segment in segments:
        assert segment.sentence == segment.sentence.strip()
        assert not segment.before.strip()
        assert not segment.after.strip()
        assert segment.sentence or len(segments) == 1 or segment is segments[0]


def test_a_long_line_is_cut_behind_sentences() -> None:
    """In pieces, because sentencex takes quadratic time; the pieces do not show."""
    text = "A cat sat here. " * 500
    assert [segment.sentence for segment in split(text, "en")] == ["A cat sat here."] * 500
    for endless in ("word " * 2000, "x" * 5000, "猫。" * 3000):
        assert "".join("".join(segment) for segment in split(endless, "en")) == endless


def test_sentences_lines_and_space() -> None:
    segments = split("  Hello Mr. Smith.  How are you?\n\n- Fine.\n", "en")
    assert [tuple(segment) for segment in segments] == [
        ("  ", "Hello Mr. Smith.", "  "),
        ("", "How are you?", "\n\n"),
        ("", "- Fine.", "\n"),
    ]


@pytest.mark.parametrize(("text", "translatable"), [("a1", True), ("12.5 %", False), ("😀 !", False), ("日", True)])
def test_only_words_are_translated(text: str, translatable: bool) -> None:
    assert split(text, "en")[0].translatable is translatable
