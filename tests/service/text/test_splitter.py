"""Plain texts: nothing is lost, and only sentences are translated."""

import re
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.segment import Segment
from service.text.sentences import sentence_separator
from service.text.splitter import _LINE, Splitter

_BLANKS = st.sampled_from([" ", "  ", "\t", "\n", "\r\n", "\n\n", "\u00a0", "\u2028", "   \n"])
_MARKS = st.sampled_from("- |* |• |1. |2) |> |# |— |- [x] |. |! |? |, |; |: |12.5 |😀 |(|)|。".split("|"))
_WORDS = st.text(st.sampled_from("abcdeéABß猫"), min_size=1, max_size=9)
STRUCTURED = st.lists(_BLANKS | _MARKS | _WORDS | st.characters(codec="utf-8"), max_size=40).map("".join)


def _splitter(characters: int) -> Splitter:
    return Splitter(lambda segment: len(segment.model_input().text) <= characters)


def _split(text: str, characters: int = 100) -> list[Segment]:
    return list(_splitter(characters).split(text, "en"))


def _translated(text: str, characters: int) -> Iterator[str]:
    """Translate by putting each sentence in brackets."""
    for segment in _split(text, characters):
        word = f"⟦{segment.sentence}⟧" if segment.translatable else segment.sentence
        yield segment.before + word + segment.after


@given(text=STRUCTURED, characters=st.integers(1, 60))
def test_all_but_the_words_is_preserved(text: str, characters: int) -> None:
    translated = "".join(_translated(text, characters))
    assert re.sub("[⟦⟧]", "", translated) == re.sub("[⟦⟧]", "", text)
    for segment in _split(text, characters):
        assert segment.sentence == segment.sentence.strip()
        assert not any(map(str.isalnum, re.sub(r"[0-9]{1,3}[.)]|[a-zA-Z]\)|\[[xX]\]", "", segment.before)))
        assert not segment.after or segment.sentence
        assert not segment.after.strip() or not segment.after.strip().isalpha()
        if segment.translatable:
            assert len(segment.model_input().text) <= characters
            assert not re.search(r"[\t\n\r\u2028]", segment.sentence)


@given(
    st.text(
        st.sampled_from("ab .\t\n\r\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029") | st.characters(codec="utf-8"), max_size=30
    )
)
def test_lines_are_those_of_str(text: str) -> None:
    assert [each[0] for each in _LINE.finditer(text)] == text.splitlines(keepends=True)


@pytest.mark.parametrize("line", ["I see a cat.\n", "1. 2. 3. 4.\n"])
def test_a_long_text_is_read_only_as_far_as_segments_are_taken(line: str) -> None:
    """Lines without a sentence, which belong to the next line with one, are not kept one by one either."""
    text = line * 20_000
    _split(line)  # caches are filled at the first use
    segments = _splitter(100).split(text, "en")
    tracemalloc.start()
    try:
        next(segments)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(text) / 10


@given(text=STRUCTURED, characters=st.integers(1, 60))
def test_a_separator_is_only_between_sentences_that_touch(text: str, characters: int) -> None:
    splitter = Splitter(lambda segment: len(segment.model_input().text) <= characters, separator="|")
    done = ""
    for segment in splitter.split(text, "zh"):
        if segment.separator:
            assert done
            assert not done[-1].isspace()
            assert not segment.before
        done += segment.text
    assert done == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("你好,世界!今天很好。再见", "你好,世界!|今天很好。|再见"),
        ("你好。 今天很好。\n再见。", "你好。 今天很好。\n再见。"),
        ("“是的。”他说。《书》好。", "“是的。”|他说。|《书》好。"),
        ("我喜欢猫" * 10, "|".join(["我喜欢猫" * 5] * 2)),
    ],
)
def test_sentences_without_spaces_get_a_separator(text: str, expected: str) -> None:
    segments = Splitter(lambda segment: len(segment.sentence) <= 20, separator="|").split(text, "zh")
    assert "".join(segment.copied_text for segment in segments) == expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("zh", "en", " "),
        ("zh-Hant", "fr", " "),
        ("ja", "en", " "),
        ("en", "zh", ""),
        ("zh", "ja", ""),
        ("en", "fr", ""),
    ],
)
def test_the_separator_is_a_space_if_only_the_source_has_none(source: str, target: str, expected: str) -> None:
    assert sentence_separator(source, target) == expected


def test_sentences_lines_bullets_and_space() -> None:
    segments = _split("  Hello Mr. Smith.  How are you?\n\n- Fine.\n\t1. One\ttwo \n> * - So\n-\n")
    assert [segment[:3] for segment in segments] == [
        ("  ", "Hello Mr. Smith.", "  "),
        ("", "How are you?", "\n\n"),
        ("- ", "Fine.", "\n"),
        ("\t1. ", "One", "\t"),
        ("", "two", " \n"),
        ("> * - ", "So", "\n-\n"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("😂 So funny 😂!!! 😘 😘", "😂 ⟦So funny 😂!⟧!! 😘 😘"),
        ("1️⃣ Really?! 🇫🇷", "1️⃣ ⟦Really?⟧! 🇫🇷"),
        ("Well......", "⟦Well...⟧..."),
        ("I like Dragoman™", "⟦I like Dragoman™⟧"),
        ("5 😂", "5 😂"),
    ],
)
def test_emoji_and_repeated_marks_around_a_sentence_are_not_read(text: str, expected: str) -> None:
    assert "".join(_translated(text, 100)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"Delete it?\nThis is final.\n", r"⟦Delete it?⟧\n⟦This is final.⟧\n"),
        (r"- Error:\tfile not found\n\n  try again", r"- ⟦Error:⟧\t⟦file not found⟧\n\n  ⟦try again⟧"),
        (r"The file C:\temp\new is gone.", r"⟦The file C:\temp\new is gone.⟧"),
    ],
)
def test_a_line_ends_at_an_escape(text: str, expected: str) -> None:
    assert "".join(_translated(text, 100)) == expected


@pytest.mark.parametrize(
    "text", ["-5 degrees", "3.5 is more", "*bold* words", "#tag here", "A. Smith came", "1984. It was"]
)
def test_text_that_resembles_a_bullet_is_translated(text: str) -> None:
    assert _split(text)[0].before == ""


def test_a_long_sentence_is_cut_at_its_clauses() -> None:
    text = "We came late, as it had rained; and then, because of the dog and the cat, we had to leave early"
    assert [segment.sentence for segment in _split(text, 70)] == [
        "We came late, as it had rained;",
        "and then, because of the dog and the cat, we had to leave early",
    ]
    assert [segment.sentence for segment in _split(text, 45)] == [
        "We came late, as it had rained;",
        "and then, because of the dog and the cat,",
        "we had to leave early",
    ]


def test_text_without_a_place_to_cut_is_copied() -> None:
    endless = "x" * 3000
    segments = _split(f"See {endless} for more.")
    assert [(segment.sentence, segment.translatable) for segment in segments] == [
        ("See", True),
        (endless, False),
        ("for more.", True),
    ]
    url = f"https://example.org/{endless}"
    assert [each.sentence for each in _split(f"See {url} for more.") if not each.translatable] == [url]


def test_no_term_is_cut() -> None:
    text = "See {first. Second}, then {a b}, {c d}, {e f}, and https://example.org/a,b;c today, and then again."
    segments = _split(text, 30)
    assert "".join(segment.text for segment in segments) == text
    terms = [term.translation for segment in segments for term in segment.terms]
    assert terms == ["{first. Second}", "{a b}", "{c d}", "{e f}", "https://example.org/a,b;c"]
    assert all(
        segment.sentence[term.start : term.end] == term.translation for segment in segments for term in segment.terms
    )
    assert all(len(segment.model_input().text) <= 30 for segment in segments)


def test_the_model_reads_a_placeholder_for_copied_parts() -> None:
    [segment] = _split("  PLEASE SEE https://a.org AND {x}!")
    model_input = segment.model_input()
    assert model_input.text == "Please see X and X!"
    assert [segment.sentence[slice(*model_input.sentence_span(*place))] for place in model_input.terms] == [
        "https://a.org",
        "{x}",
    ]
    assert segment.sentence[slice(*model_input.sentence_span(13, 16))] == "AND"
    assert segment.sentence[slice(*model_input.sentence_span(0, 19))] == segment.sentence


def test_a_placeholder_touches_no_letter() -> None:
    [segment] = _split("Visit <b>us</b> or {x}s, 見{y}。")
    model_input = segment.model_input()
    assert model_input.text == "Visit X us X or X s, 見X。"
    words = [segment.sentence[slice(*model_input.sentence_span(*place))] for place in model_input.terms]
    assert words == ["<b>", "</b>", "{x}", "{y}"]
    assert segment.sentence[slice(*model_input.sentence_span(8, 10))] == "us"
    assert segment.sentence[slice(*model_input.sentence_span(7, 10))] == "us"
    assert segment.sentence[slice(*model_input.sentence_span(13, 15))] == "or"


def test_scripts_without_spaces_are_cut_between_characters() -> None:
    segments = _split("我喜欢猫" * 1000)
    assert all(segment.translatable and 25 <= len(segment.sentence) <= 100 for segment in segments)


@pytest.mark.parametrize(
    ("text", "translatable"),
    [("a1", {True}), ("日", {True}), ("네.", {True}), ("", set())]
    + [
        (text, {False})
        for text in ("12.5 %", "😀 !", "https://a.org/b", "{x}: %s!", "a@b.org, c@d.org", "A.", "IV)", "(ii)")
    ],
)
def test_only_words_are_translated(text: str, translatable: set[bool]) -> None:
    assert {segment.translatable for segment in _split(text)} == translatable


@pytest.mark.parametrize(
    ("sentence", "source"),
    [
        ("DO NOT SMOKE!", "Do not smoke!"),
        ("«ÉCOLE FERMÉE»", "«École fermée»"),
        ("PLAN B", "Plan b"),
        ("NASA", "NASA"),
        ("The NASA", "The NASA"),
        ("A B", "A B"),
        ("12 CATS", "12 CATS"),
        ("愛 猫", "愛 猫"),
        ("THE İ", "The İ"),
    ],
)
def test_a_sentence_in_capitals_is_read_in_lower_case(sentence: str, source: str) -> None:
    [segment] = _split(sentence)
    assert segment.model_input().text == source
    assert segment.render("Straße") == ("STRASSE" if source != sentence else "Straße")
    [left] = Splitter(lambda segment: True, restore_capitals=False).split(sentence, "en")
    assert left.model_input().text == sentence
