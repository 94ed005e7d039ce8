"""Words that a model cannot write are found whole, and nothing that it can write is."""

import unicodedata
from collections.abc import Collection
from pathlib import Path

import pytest

from model.tokenizer import Tokenizer
from service.text.glossary import Glossary
from service.text.language_codes import foreign_letters
from service.text.placeholders import find_verbatim
from service.text.segment import Term
from service.text.splitter import Splitter
from service.text.unwritable import Unwritable

EMBEDDED = Tokenizer.from_directory(Path("model/pretrained/en-fr"))


def _found(text: str, unspelled: Unwritable = Unwritable(unspelled=EMBEDDED.unspelled)) -> list[str]:  # noqa: B008
    return [text[start:end] for start, end in find_verbatim(text, unspelled)]


@pytest.mark.parametrize(
    ("text", "copied"),
    [
        ("Luka Modrić plays.", ["Modrić"]),
        ("We met Nguyễn Văn Đức, in Hà Nội.", ["Nguyễn Văn Đức", "Nội"]),
        ("Dvořák's symphony, l'Šibenik", ["Dvořák", "Šibenik"]),
        ("Kovač-Horvat", ["Kovač"]),
        ("A ★★☆ hotel", ["★★☆"]),
        ("The rate is 12‰.", ["12‰"]),
        ("① Open ➢ close", ["①", "➢"]),
        ("Run a`b, then go.", ["a`b"]),
        ("It’s the “café” – c’est « ça » at 20 °C & €5 (§ 5).", []),
        ("Où est l'été ? ÊTRE, ŒUVRE", []),
        ("a\u00a0b\u200bc\td", []),
    ],
)
def test_by_the_tokenizer(text: str, copied: list[str]) -> None:
    assert _found(text) == copied


def test_an_accent_by_itself_belongs_to_its_letter() -> None:
    assert _found(unicodedata.normalize("NFD", "Un café créé")) == []
    assert _found(unicodedata.normalize("NFD", "Modrić plays")) == [unicodedata.normalize("NFD", "Modrić")]


def test_a_tokenizer_that_knows_the_letter_copies_nothing() -> None:
    assert _found("Luka Modrić plays.", Unwritable()) == []


def test_of_a_script_without_spaces_only_the_character_is_copied() -> None:
    def unspelled(text: str) -> Collection[str]:
        return set(text) & {"髙"}

    assert _found("私は髙橋です", Unwritable(unspelled=unspelled)) == ["髙"]


def test_a_term_of_a_glossary_is_written_all_the_same() -> None:
    text = "Modrić met Perišić"
    unwritable = Unwritable(unspelled=EMBEDDED.unspelled)
    found = find_verbatim(text, unwritable, [Term(0, 6, "M.")])
    assert [text[start:end] for start, end in found] == ["Perišić"]


@pytest.mark.parametrize("part", ["ć", "\\", "ć ", "a\\ ", "e\u0301", "★", "1‰"])
def test_a_long_text_ends_soon(part: str) -> None:
    """Quadratic time would be minutes."""
    text = part * (50_000 // len(part))
    assert sum(map(len, _found(text))) <= len(text)


def test_foreign_words_are_copied() -> None:
    splitter = Splitter(lambda segment: True, unwritable=Unwritable(foreign_letters("en", "fr")))
    alone, [inside] = list(splitter.split("Привет, мир.\n你好。", "en")), splitter.split("My Дмитрий is here.", "en")
    assert not any(segment.translatable for segment in alone)
    assert inside.model_input().text == "My X is here."
    assert [term.translation for term in inside.terms] == ["Дмитрий"]


@pytest.mark.parametrize("text", ["I saw 東京タワー here.", "Киев, Москва, Рига"])
def test_a_term_of_a_glossary_is_translated_inside_of_foreign_words(text: str) -> None:
    glossary = Glossary({"東京": "Tokyo", "Москва": "Moscou"})
    splitter = Splitter(
        lambda segment: True, find_terms=glossary.find, unwritable=Unwritable(foreign_letters("en", "fr"))
    )
    terms = [term for segment in splitter.split(text, "en") for term in segment.terms]
    assert [term.translation for term in terms if not term.is_copy] in (["Tokyo"], ["Moscou"])
    assert [term.translation for term in terms if term.is_copy] in (["タワー"], ["Киев", "Рига"])
