"""Language detection: the most probable of the known languages, and its confidence."""

import pytest

from service.text.language_detection import SAMPLE_CHARACTERS, detect_any, find_foreign, rank_languages
from service.text.markup.tokenizer import text_sample

LANGUAGES = ["de", "en", "es", "fr"]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Where is the station? I have lost my key.", "en"),
        ("Où est la gare ? J'ai perdu ma clé.", "fr"),
        ("Wo ist der Bahnhof? Ich habe meinen Schlüssel verloren.", "de"),
        ("¿Dónde está la estación? He perdido mi llave.", "es"),
        ("DIE KATZE SCHLÄFT AUF DEM TISCH", "de"),
    ],
)
def test_the_most_probable_language_is_first(text: str, language: str) -> None:
    first, *others = rank_languages(text, LANGUAGES)
    assert first.language == language
    assert 50 < first.confidence <= 100
    assert sorted([first.language, *(each.language for each in others)]) == LANGUAGES
    assert all(each.confidence < 50 for each in others)


@pytest.mark.parametrize("text", ["", " ", "12.5", "😀"])
def test_a_text_without_words_has_no_language(text: str) -> None:
    assert [(each.language, each.confidence) for each in rank_languages(text, ["fr", "en"])] == [("en", 0), ("fr", 0)]


def test_any_language_is_found() -> None:
    first, *others = detect_any("Onde fica a estação? Perdi a minha chave.")
    assert first.language == "pt"
    assert all(0 < each.confidence < first.confidence for each in others)
    assert detect_any("12.5") == []


def test_a_text_in_an_unknown_language_gets_a_low_confidence() -> None:
    [first] = rank_languages("Onde fica a estação? Perdi a minha chave.", ["es"])
    assert first.language == "es"
    assert first.confidence < 30


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Wo ist der Bahnhof? Ich habe meinen Schlüssel verloren.", "de"),
        ("¿DÓNDE ESTÁ LA ESTACIÓN?", "es"),
        ("我喜欢猫，你呢？", "zh"),
        ("Where is the station?", None),
        ("Où est la gare ?", None),
        ("Bahnhof", None),
        *((text, None) for text in ("", "12.5", "12 345", "10 - 12", "- -", "+33 1 23", "😀 😀", "\ue000 \ue001")),
    ],
)
def test_a_text_in_none_of_the_languages_is_found(text: str, language: str | None) -> None:
    found = find_foreign(text, ["en", "fr"])
    assert (found and found.language) == language
    assert find_foreign(text, ["de", "en", "es", "fr", "zh-Hans"]) is None


def test_confidence_is_whole_and_of_all_languages() -> None:
    """The confidence does not depend on which other languages are known."""
    text = "Wo ist der Bahnhof? Ich habe meinen Schlüssel verloren."
    [alone] = rank_languages(text, ["de"])
    assert alone in rank_languages(text, LANGUAGES)
    assert all(each.confidence.is_integer() for each in rank_languages("la casa de papel", LANGUAGES))


def test_scripts_and_regions_are_those_of_their_language() -> None:
    assert rank_languages("我喜欢猫，你呢？", ["en", "zh-Hans"])[0].language == "zh-Hans"
    assert rank_languages("Hvor er stasjonen? Jeg har mistet nøkkelen min.", ["en", "nb"])[0].language == "nb"


def test_only_the_text_of_html_is_sampled() -> None:
    html = "<div class='the and of it is that'><!-- this is the comment -->Wo ist der Bahnhof?<script>the and</script>"
    assert text_sample(html, SAMPLE_CHARACTERS) == "Wo ist der Bahnhof?"
    assert len(text_sample("<p>word " * 100_000, SAMPLE_CHARACTERS)) < 3000
