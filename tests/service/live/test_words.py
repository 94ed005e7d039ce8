"""Whole words, and the end of a sentence."""

import re

import pytest

from service.live.policies import Token
from service.live.words import ends_sentence, whole_words, word_starts


def _tokens(*texts: str) -> list[Token]:
    return [Token(number, text) for number, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("tokens", "count", "committed"),
    [
        (["Le", " ch", "at", " dort"], 2, "Le"),
        (["Le", " ch", "at", " dort"], 3, "Le chat"),
        (["Le", " chat", "."], 3, "Le chat"),  # a full stop waits
        (["Le", " chat", ",", " qui"], 3, "Le chat,"),
        (["Est", "-", "il", " là", " ?"], 2, ""),
        (["Est", "-", "il", " là", " ?"], 5, "Est-il là"),
        (["voit", " l", "'", "eau", " bleue"], 3, "voit"),
        (["voit", " l", "'", "eau", " bleue"], 4, "voit l'eau"),
        (["a", " 3", " 500", " livres"], 2, "a"),
        (["a", " 3", " 500", " livres"], 3, "a 3 500"),
        (["a", " 3", ",", "5", " kg"], 2, "a"),
        (["a", " 12"], 2, "a"),  # the number may go on
        (["par", " J", ".", " K", "."], 2, "par"),
        (["M", ".", " Dupont", " dort"], 2, ""),
        (["M", ".", " Dupont", " dort"], 3, "M. Dupont"),
        (["dit", " «", " oui"], 2, "dit"),
        (["私", "は", "猫", "です"], 3, "私は猫"),
        (["مرحبا", " بك", "م"], 2, "مرحبا"),
        (["", "", ""], 3, ""),
    ],
)
def test_words_are_committed_whole(tokens: list[str], count: int, committed: str) -> None:
    assert "".join(tokens[: whole_words("", _tokens(*tokens), count)]) == committed


def test_what_is_held_back_is_not_committed() -> None:
    tokens = [*_tokens("a"), Token(1, " b", holds_text=True), Token(2, " livres")]
    assert whole_words("", tokens, 2) == 1


def test_a_word_goes_on_from_what_is_committed() -> None:
    assert whole_words("par J", _tokens(" ", "."), 1) == 0


def test_words_of_scripts() -> None:
    assert [re.match(r"\w+", "the cat"[place:]) and "the cat"[place] for place in word_starts("the cat")] == ["t", "c"]
    assert word_starts("") == word_starts(" \n") == []
    assert len(word_starts("我看见一只猫。")) == 6


@pytest.mark.parametrize(
    ("text", "language", "ends"),
    [
        ("I see a cat. ", "en", True),
        ("I see a cat.", "en", False),  # a recogniser's full stop may move
        ("I see a cat ", "en", False),
        ("He met Dr. ", "en", False),
        ("Really?! ", "en", True),
        ('He said "yes." ', "en", True),
        ("It costs 3. ", "en", True),
        ("我看见一只猫。", "zh", True),
        ("", "en", False),
    ],
)
def test_the_end_of_a_sentence(text: str, language: str, *, ends: bool) -> None:
    assert ends_sentence(text, language) == ends
