"""The English names of languages, for all codes of models."""

import pytest

from service.api.languages import language_name


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("fr", "French"),
        ("zh-Hant", "Chinese (Traditional)"),
        ("sr-Latn", "Serbian (Latin)"),
        ("EN-GB", "English (United Kingdom)"),
        # No languages, and what is none that Babel can read.
        ("xx", "xx"),
        ("zt", "zt"),
        ("en-a1", "en-a1"),
    ],
)
def test_a_language_has_its_name_or_its_code(code: str, name: str) -> None:
    assert language_name(code) == name
