"""Copied parts (URLs, tags, emoji and the like) are found whole, and nothing else is."""

import pytest

from service.text.placeholders import find_breaks, find_verbatim
from service.text.syntaxes import SYNTAXES


@pytest.mark.parametrize(
    ("syntax", "example"), [(each.name, example) for each in SYNTAXES for example in each.examples]
)
def test_an_example_of_each_syntax_is_copied_whole(syntax: str, example: str) -> None:
    for text in (f"See {example} now", f"“{example}”", f"{example}, and", example):
        assert [text[start:end] for start, end in find_verbatim(text)] == [example]


@pytest.mark.parametrize("copied", ["(%s)", "<a@b.org>", "[[{0}]]", "({0} {1})", "<{1}>"])
def test_brackets_that_hold_nothing_else_are_copied_too(copied: str) -> None:
    text = f"Write to {copied} (not %s."
    assert [text[start:end] for start, end in find_verbatim(text)] == [copied, "%s"]


@pytest.mark.parametrize(
    ("text", "breaks"),
    [
        (r"Delete this file?\nThis is final.", [r"\n"]),
        (r"one\ntwo of\r\n\nThree.\tfour", [r"\n", r"\r\n\n", r"\t"]),
        (r"C:\temp\notes and `a\nB` and $x\nu$", []),
        (r"See \ref{x}.\newline The \nu of\textbf{x}", []),
    ],
)
def test_breaks_that_are_written_as_escapes(text: str, breaks: list[str]) -> None:
    assert [text[start:end] for start, end in find_breaks(text)] == breaks


_PROSE = ("don't", "I, and you; so: what?", "3:45 - 4:00", "the end...", "on iOS and eBay; the pH is 7", "f(x) = y")


@pytest.mark.parametrize("text", [*_PROSE, *(example for each in SYNTAXES for example in each.counterexamples)])
def test_what_looks_similar_is_text(text: str) -> None:
    assert not find_verbatim(text)
    assert not find_verbatim(f"See {text} now")


@pytest.mark.parametrize(
    "name", ["ab://c", "www.host.xyz", "mailto:nobody", "a@b.xyz", "ab.co/e", "C:\\a", "abC", "A1B2"]
)
def test_one_sign_of_a_syntax_is_enough(name: str) -> None:
    text = f"see {name} now"
    assert [text[start:end] for start, end in find_verbatim(text)] == [name]


def test_neighbours_are_merged_and_final_punctuation_is_not_part_of_a_url() -> None:
    text = "Hi 😀 🎉 <b>{x}, see https://a.org/x_(y). (www.b.org)"
    found = [text[start:end] for start, end in find_verbatim(text)]
    assert found == ["😀 🎉 <b>{x}", "https://a.org/x_(y)", "(www.b.org)"]


def test_a_windows_path_ends_where_prose_begins() -> None:
    text = r"Copy C:\data to the folder on the desk\shelf and restart."
    found = [text[start:end] for start, end in find_verbatim(text)]
    assert found[0] == r"C:\data"
    assert "folder" not in "".join(found)


def test_an_arrow_takes_no_word_along() -> None:
    text = "Click → a new window opens → I wait."
    assert [text[start:end] for start, end in find_verbatim(text)] == ["→", "→"]
