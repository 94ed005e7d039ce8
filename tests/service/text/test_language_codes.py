"""However a language is written, and what does not stand for it."""

import pytest

from service.text.language_codes import matching

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
        ("zh", "zh-Hans"),
        ("ZH-CN", "zh-Hans"),
        ("zh-TW", "zh-Hant"),
        ("zh_hk", "zh-Hant"),
        ("zh-Hant-TW", "zh-Hant"),
        ("zt", "zh-Hant"),
        ("sr-latn", "sr-Latn"),
        # Written in another script, in no language of these, or in none.
        ("sr", None),
        ("en-Cyrl", None),
        ("eng", None),
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
def test_a_code_stands_for_a_language(code: str, expected: str | None) -> None:
    assert matching(code, KNOWN) == expected


def test_what_is_known_by_its_very_name_is_that() -> None:
    known = ["pt", "pt-BR", "zt", "PB"]
    for code in known:
        assert matching(code, known) == code
    assert matching("pt-br", known) in ("pt-BR", "PB")
    assert matching("zh-Hant", known) == "zt"
    assert matching("zh", ["zt"]) is None
