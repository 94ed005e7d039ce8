"""A source that grows, is corrected, and loses what is finished."""

import pytest

from service.errors import InvalidRequest, TooLong
from service.live.source import MAX_UNFINISHED_CHARACTERS, LiveSource


def _source(text: str, dropped: int = 0) -> LiveSource:
    source = LiveSource()
    source.append(text)
    source.drop(dropped)
    return source


def test_it_grows_and_is_corrected_at_its_end() -> None:
    source = _source("I see a cab")
    source.replace(8, "cat on")
    assert (source.text, source.end) == ("I see a cat on", 14)
    source.replace(14, " a mat")
    assert source.text == "I see a cat on a mat"


@pytest.mark.parametrize(
    ("position", "text", "left", "start", "differs"),
    [
        (0, "I see. You went", "You went", 7, 11),  # the same beginning is no correction
        (0, "I seen. You two", "You two", 8, 5),  # other letters, as many words
        (2, "saw it. You", "it. You", 6, 3),  # a word more: what follows the first one is not finished
        (2, "see", "", 5, 5),
        (7, "You", "You", 7, 10),
        (9, "u", "You", 7, 10),
    ],
)
def test_a_correction_of_finished_text_keeps_as_many_words(
    position: int, text: str, left: str, start: int, differs: int
) -> None:
    source = _source("I see. You go.", dropped=7)
    assert source.replace(position, text) == differs
    assert (source.text, source.start) == (left, start)
    assert source.end == position + len(text)


def test_what_is_final_ends_where_a_correction_begins() -> None:
    source = _source("I see a cat.")
    source.finish()
    assert source.final_until == 12
    source.replace(8, "dog")
    assert source.final_until == 8
    source.finish(10)
    assert source.final_until == 10
    with pytest.raises(InvalidRequest, match="final: the source has 11"):
        source.finish(12)


@pytest.mark.parametrize("position", [15, 2**53])
def test_positions_that_are_not_there_yet(position: int) -> None:
    with pytest.raises(InvalidRequest, match="replace_from: must be from 0, the oldest kept position, to 14"):
        _source("I see. You go.", dropped=7).replace(position, "x")


def test_memory_is_bounded() -> None:
    source = LiveSource()
    for _ in range(1000):
        source.append("Nine more. ")
        source.drop(11)
    assert source.start == source.end == 11_000
    assert len(source._finished) == 2_000
    with pytest.raises(InvalidRequest, match="oldest kept position"):
        source.replace(8_000, "")
    with pytest.raises(TooLong, match="append"):
        source.append("x" * (MAX_UNFINISHED_CHARACTERS + 1))
