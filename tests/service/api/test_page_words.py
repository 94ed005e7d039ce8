"""The page's words in other languages: every language has all of them, with the same places for values."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from service.api import page

_WEB = Path(page.__file__).parent / "web"
_ATTRIBUTES = {"aria-label", "aria-description", "title", "placeholder", "alt", "data-empty"}
_SAME = {"Dragoman", "API"}
TABLES = sorted((_WEB / "strings").iterdir())


class _Words(HTMLParser):
    """The words of a page's body."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self._is_body = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_body = self._is_body or tag == "body"
        self.found |= {" ".join(value.split()) for name, value in attrs if name in _ATTRIBUTES and value}

    def handle_data(self, data: str) -> None:
        if self._is_body:
            self.found.add(" ".join(data.split()))


def _words() -> set[str]:
    words = _Words()
    for page_name in ("index.html", "captions.html"):
        words.feed((_WEB / page_name).read_text())
    in_modules = {
        match for module in _WEB.glob("*.js") for match in re.findall(r'\bt\(\s*"([^"]*)"', module.read_text())
    }
    in_page = {each for each in words.found if re.search("[A-Za-z]{2}", each)}
    return (in_page | in_modules) - _SAME


def test_there_are_the_languages_that_the_page_offers() -> None:
    offered = re.search(r"INTERFACES = \[(.*?)\]", (_WEB / "texts.js").read_text())
    assert offered
    assert {path.stem for path in TABLES} | {"en"} == set(re.findall(r"\w\w", offered[1]))


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_a_language_has_every_word(path: Path) -> None:
    table: dict[str, str] = json.loads(path.read_text())
    assert set(table) == _words()
    for english, words in table.items():
        assert words.strip(), english
        assert sorted(re.findall(r"\{\w+\}", words)) == sorted(re.findall(r"\{\w+\}", english))
