"""Language codes: the spellings that match a language, and those that do not."""

import pytest

from service.text.language_codes import match_code

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
