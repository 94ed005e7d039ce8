"""Words in foreign scripts are found whole; those of either language, and Latin ones, are not."""

import pytest

from service.text.glossary import Glossary
from service.text.scripts import foreign_letters
from service.text.splitter import Splitter
from service.text.unwritable import Unwritable


@pytest.mark.parametrize(
    ("source", "target", "text", "words"),
    [
        ("en", "fr", "My friend Дмитрий, at 東京タワー", ["Дмитрий", "東京タワー"]),
        ("en", "fr", "the angle α of 5Ω or 10 kΩ", ["α", "Ω", "kΩ"]),
        ("en", "fr", "«Привет, мир» and コーヒー and می‌خواهم", ["Привет, мир", "コーヒー", "می‌خواهم"]),
        ("en", "fr", "naïve café, Århus, 10 µm, x², 3ª, ℝ", []),
        ("eng_Latn", "fra_Latn", "a 愛", ["愛"]),
        ("ru", "en", "Москва и Ελλάδα", ["Ελλάδα"]),
        ("en", "sr", "Београд", []),
        ("ja", "en", "私の犬はポチ и ok", ["и"]),
        ("zh-TW", "en", "我 かな", ["かな"]),
        ("ko", "en", "한국 漢字", []),
    ],
)
def test_words_in_scripts_of_neither_language_are_found(source: str, target: str, text: str, words: list[str]) -> None:
    found = foreign_letters(source, target)
    assert found is not None
    assert found.findall(text) == words


@pytest.mark.parametrize("code", ["xx", "", "mga"])
def test_a_language_whose_scripts_are_unknown_has_no_foreign_letters(code: str) -> None:
    assert foreign_letters("en", code) is None
    assert foreign_letters(code, "en") is None


def test_foreign_words_are_copied() -> None:
    splitter = Splitter(lambda segment: True, unwritable=Unwritable(foreign_letters("en", "fr")))
    alone, [inside] = list(splitter.split("Привет, мир.\n你好。", "en")), splitter.split("My Дмитрий is here.", "en")
    assert not any(segment.translatable for segment in alone)
    assert inside.model_input().text == "My X is here."
    assert [term.translation for term in inside.terms] == ["Дмитрий"]


@pytest.mark.parametrize("text", ["I saw 東京タワー here.", "Киев, Москва, Рига"])
def test_a_term_of_a_glossary_is_translated_inside_of_foreign_words(text: str) -> None:
    glossary = Glossary({"東京": "Tokyo", "Москва": "Moscou"})
    splitter = Splitter(lambda segment: True, glossary=glossary, unwritable=Unwritable(foreign_letters("en", "fr")))
    terms = [term for segment in splitter.split(text, "en") for term in segment.terms]
    assert [term.translation for term in terms if not term.is_copy] in (["Tokyo"], ["Moscou"])
    assert [term.translation for term in terms if term.is_copy] in (["タワー"], ["Киев", "Рига"])
