"""Language codes: the spellings that match a language, and the letters that no language of a pair has."""

import pytest

from service.text.language_codes import foreign_letters, match_code

KNOWN = ["de", "en", "fr", "nb", "pt", "sr-Latn", "zh-Hans", "zh-Hant"]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("en", "en"),
        ("EN", "en"),
        ("en-GB", "en"),
        ("fr_FR", "fr"),
        ("de-1996", "de"),
        ("de-Latn-AT", "de"),
        ("pt-BR", "pt"),
        ("pb", "pt"),
        ("eng", "en"),
        ("fra_Latn", "fr"),
        ("zho_Hant", "zh-Hant"),
        ("nob_Latn", "nb"),
        ("zh", "zh-Hans"),
        ("ZH-CN", "zh-Hans"),
        ("zh-TW", "zh-Hant"),
        ("zh_hk", "zh-Hant"),
        ("zh-Hant-TW", "zh-Hant"),
        ("zt", "zh-Hant"),
        ("sr-latn", "sr-Latn"),
        # Another script, an unknown language, or not a language code.
        ("sr", None),
        ("en-Cyrl", None),
        ("xx", None),
        ("", None),
        ("-", None),
        ("e n", None),
        # Malformed.
        ("en-", None),
        ("en--", None),
        ("en--GB", None),
        ("-en", None),
        ("en-!", None),
        ("en-GB ", None),
    ],
)
def test_a_code_matches_a_language(code: str, expected: str | None) -> None:
    assert match_code(code, KNOWN) == expected


def test_an_exact_name_matches_itself() -> None:
    known = ["pt", "pt-BR", "zt", "PB"]
    for code in known:
        assert match_code(code, known) == code
    assert match_code("pt-br", known) in ("pt-BR", "PB")
    assert match_code("zh-Hant", known) == "zt"
    assert match_code("zh", ["zt"]) is None


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
