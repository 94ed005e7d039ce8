"""Marked text holds no capitals and gives them all back, whole or one character at a time."""

import unicodedata

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st
from sentencepiece import SentencePieceNormalizer

from model.case_marks import (
    CASE_MARKS,
    LITERAL,
    SPACES,
    TITLE,
    UPPER,
    UPPER_BEGIN,
    UPPER_END,
    CaseRestorer,
    is_lower,
    is_upper,
    mark_case,
    mark_text,
)

# Letters whose case is a matter of more than one letter, marks, digits and signs between words, and all other text.
_AWKWARD = "aAbBcCéÉßẞıİſΣσςǅﬁ\u0301\u0345'’-_.,!(«19〇❶ \t\n\u00a0\u2028" + "".join(CASE_MARKS)
_TEXTS = st.text(st.one_of(st.sampled_from(_AWKWARD), st.characters(exclude_categories=["Cs"])), max_size=40)


def _normalised(text: str) -> str:
    """The form of a text that marking keeps: NFKC of each grapheme cluster, single spaces."""
    if not unicodedata.is_normalized("NFKC", text):
        text = "".join(unicodedata.normalize("NFKC", cluster) for cluster in regex.findall(r"\X", text))
    return SPACES.sub(" ", text).strip(" ")


def _shown(text: str) -> str:
    """Marks as letters that can be read: T, U, B and E, and L for a literal mark."""
    names = dict(zip((TITLE, UPPER, UPPER_BEGIN, UPPER_END, LITERAL), "TUBEL", strict=True))
    return "".join(f"<{names[character]}>" if character in names else character for character in text)


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("hello", " hello"),
        ("Hello", "<T> hello"),
        ("I see", "<T> i see"),
        ("Hello NATO", "<T> hello<U> nato"),
        ("an iPhone of McDonald", " an i<T>phone of<T> mc<T>donald"),
        ("HELLO WORLD", "<B> hello world"),
        ("NOW OR NEVER, he said", "<B> now or never<E>, he said"),
        ("now OR NEVER 12", " now<B> or never 12"),
        ("I AM", "<T> i<U> am"),
        ("AM I A CAT", "<B> am i a cat"),
        ("(Hello)", " (<T>hello)"),
        ("U.S.", "<T> u.<T>s."),
        ("1ST", " 1<U>st"),
        ("HTML5 page", "<U> html5 page"),
        (" two\u00a0  spaces\n", " two spaces"),
        ("\ufb01n \uff21", " fin<T> a"),
        ("", ""),
        (" \t", ""),
        ("!?", " !?"),
        ("!\u200b", " !"),
        ("\ufeffHello\u200b \u200bthere", "<T> hello there"),
        ("\u200b", ""),
    ],
)
def test_marks_by_hand(text: str, marked: str) -> None:
    assert _shown(mark_case(text).text) == marked


def test_white_space_is_all_that_the_tokenizer_makes_spaces_of() -> None:
    """Its rules run after the marks are set: what becomes a space there would be an extra one."""
    rules = SentencePieceNormalizer(
        rule_name="nmt_nfkc", add_dummy_prefix=False, remove_extra_whitespaces=False, escape_whitespaces=False
    )
    spaces = [
        character
        for character in map(chr, (*range(0x01, 0xD800), *range(0xE000, 0x10000)))
        if rules.normalize(f"a{character}b") == "a b"
    ]
    assert len(spaces) > 20
    assert {character for character in spaces if mark_case(f"a {character}b!{character}").text != " a b!"} == set()


def test_a_mark_that_a_text_holds_itself_stays() -> None:
    marked = mark_case(f"a{TITLE}b {UPPER_END}").text
    assert marked == f" a{LITERAL}{TITLE}b {LITERAL}{UPPER_END}"
    assert CaseRestorer().push(marked) == f" a{TITLE}b {UPPER_END}"


@example(text="Å〇K ❶AB")
@given(text=_TEXTS)
@example(text="THE END of A thing OR TWO")
@example(text="İSTANBUL ŒUVRE straße STRAẞE Dž ǅ")
def test_marking_loses_nothing_but_the_form_of_white_space(text: str) -> None:
    marked = mark_case(text).text
    expected = _normalised(text)
    restored = CaseRestorer().push(marked)
    assert restored == (f" {expected}" if expected else "")
    one_by_one = CaseRestorer()
    assert "".join(map(one_by_one.push, marked)) == restored


@given(text=st.text(st.sampled_from("abIOéÉßÿ×÷’“–_-.,19  \t\u00a0µ" + TITLE), max_size=30) | _TEXTS)
@example(text="Hello. I saw McDonald’s sister in Élan-3B, O'Neil")
def test_the_short_way_marks_the_same(text: str) -> None:
    assert mark_text(text) == mark_case(text).text


@given(text=_TEXTS)
def test_marked_text_has_no_capitals_that_a_mark_could_give_back(text: str) -> None:
    assert not any(map(is_upper, mark_case(text).text))


@given(text=_TEXTS)
def test_every_offset_is_the_place_that_a_character_comes_from(text: str) -> None:
    marked, offsets = mark_case(text)
    assert len(offsets) == len(marked)
    assert offsets == sorted(offsets)
    assert all(0 <= offset <= len(text) for offset in offsets)
    if not unicodedata.is_normalized("NFKC", text):
        return
    is_literal = False
    for character, offset in zip(marked, offsets, strict=True):
        if (is_literal or character not in CASE_MARKS) and character != " ":
            assert character in (text[offset], text[offset].lower())
        is_literal = not is_literal and character == LITERAL


def test_offsets_of_composed_characters_are_those_of_their_clusters() -> None:
    """The ligature is two characters afterwards, the accented letter one; both are one place of the text."""
    marked, offsets = mark_case("\ufb01n e\u0301 B")
    assert marked == f" fin \u00e9{TITLE} b"
    assert offsets == [0, 0, 0, 1, 3, 3, 6, 6, 6]


def test_what_a_restorer_returned_does_not_wait_for_what_follows() -> None:
    restorer = CaseRestorer()
    pushed = [restorer.push(part) for part in (UPPER, " na", "to ", TITLE, "x", f"{UPPER_BEGIN} a", f"b{UPPER_END} c")]
    assert pushed == ["", " NA", "TO ", "", "X", " A", "B c"]


@pytest.mark.parametrize(
    ("marked", "restored"),
    [
        (f"{TITLE}", ""),
        (f"{TITLE}{UPPER} word", " WORD"),
        (f"{TITLE} 12 word", " 12 word"),
        (f"{UPPER_END} word", " word"),
        (f"{UPPER_BEGIN} one{UPPER_BEGIN} two", " ONE TWO"),
        (f"{LITERAL}", ""),
    ],
)
def test_marks_in_no_order_do_no_harm(marked: str, restored: str) -> None:
    """A model may write anything."""
    assert CaseRestorer().push(marked) == restored


def test_case_is_only_where_one_letter_gives_one_back() -> None:
    assert [is_upper(letter) for letter in "AÉΣ\u0130\u01c51a"] == [True, True, True, False, False, False, False]
    assert [is_lower(letter) for letter in "aéσ\u00df\u0131ς1A"] == [
        True,
        True,
        True,
        False,
        False,
        False,
        False,
        False,
    ]
