"""Formats that are JSON: only texts differ, and without a change every byte stays."""

import json
from typing import Any

import pytest

from service.errors import InvalidRequest
from tests.service.documents.conftest import Rewrite, same


def _unit(value: str, state: str = "translated") -> dict[str, Any]:
    return {"stringUnit": {"state": state, "value": value}}


def _plural(one: str, other: str, state: str = "translated") -> dict[str, Any]:
    return {"variations": {"plural": {"one": _unit(one, state), "other": _unit(other, state)}}}


def _catalog(**strings: Any) -> str:
    """Write a catalog as Xcode does."""
    catalog = {"sourceLanguage": "en", "strings": strings, "version": "1.0"}
    return json.dumps(catalog, ensure_ascii=False, indent=2, separators=(",", " : ")).replace("{}", "{\n\n    }")


def _birds(text: str, one: str, state: str = "translated") -> dict[str, Any]:
    return _unit(text, state) | {"substitutions": {"birds": {"argNum": 1, **_plural(one, "", state)}}}


ENTRIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "key is the text": ({}, {"fr": _unit("KEY IS THE TEXT", "needs_review")}),
    "a": ({"en": _unit('the "house"')}, {"fr": _unit('THE "HOUSE"', "needs_review")}),
    "b": ({"de": _unit("x"), "en": _plural("é", "es")}, {"fr": _plural("É", "ES", "needs_review")}),
    "c": ({"en": _birds("see %#@birds@", "%arg bird")}, {"fr": _birds("SEE %#@birds@", "%arg BIRD", "needs_review")}),
    "d": ({"en": _unit("new"), "fr": _unit("", "new")}, {"fr": _unit("NEW", "needs_review")}),
    "e": ({"en": _unit("x"), "fr": _unit("fait")}, {"fr": _unit("fait")}),
    "f": ({"en": _unit("100 %")}, {}),
}


@pytest.mark.parametrize("key", ENTRIES)
def test_an_entry_of_a_string_catalog(key: str, rewrite: Rewrite) -> None:
    before, added = ENTRIES[key]
    source = {"comment": "no"} | ({"localizations": before} if before else {})
    expected = source | ({"localizations": before | added} if before | added else {})
    other = {"shouldTranslate": False}
    assert rewrite("a.xcstrings", _catalog(**{key: source, "z": other})).decode() == _catalog(
        **{key: expected, "z": other}
    )


def test_a_catalog_of_another_language(rewrite: Rewrite) -> None:
    with pytest.raises(InvalidRequest, match=r"^file: it is not a string catalog"):
        rewrite("a.xcstrings", '{"strings": []}')


CODE = {"cell_type": "code", "metadata": {}, "outputs": [{"text": ["hi there\n"]}], "source": ["print('hello')\n"]}
CELLS = {
    "lines": (["# a\n", "\n", "the *b* $1$\n", "\n"], ["# A\n", "\n", "THE *B* $1$\n", "\n"]),
    "escapes": (
        ['"é"\t\\\\ [a](b "c")\n', "```\n", "code\n", "```"],
        ['"É"\t\\\\ [A](b "C")\n', "```\n", "code\n", "```"],
    ),
    "joined lines": (["one\n", "two"], ["ONE TWO"]),
    "link to a heading": ("[a](#Big-b)\n\n# Big b", '[A](#Big-b)\n\n# <a id="Big-b"></a>BIG B'),
    "one text": ("a\n\n- b\n", "A\n\n- B\n"),
    "nothing": ([], []),
}


@pytest.mark.parametrize(("cell", "expected"), CELLS.values(), ids=CELLS)
def test_a_cell_of_a_notebook(cell: object, expected: object, rewrite: Rewrite) -> None:
    def written(source: object, *, is_ascii: bool) -> str:
        cells = [{"cell_type": "markdown", "metadata": {}, "source": source}, CODE]
        return json.dumps({"cells": cells, "nbformat": 4}, indent=1, ensure_ascii=is_ascii) + "\n"

    for is_ascii in (True, False):
        notebook = written(cell, is_ascii=is_ascii)
        assert rewrite("a.ipynb", notebook, same).decode() == notebook
        assert json.loads(rewrite("a.ipynb", notebook)) == json.loads(written(expected, is_ascii=False))


@pytest.mark.parametrize("cells", ['{"a": 1}', '[{"cell_type": "markdown", "source": [1]}]'])
def test_a_broken_notebook(cells: str, rewrite: Rewrite) -> None:
    with pytest.raises(InvalidRequest, match=r"^file: (it is not a notebook|a cell of the notebook is no text)"):
        rewrite("a.ipynb", f'{{"cells": {cells}}}')
