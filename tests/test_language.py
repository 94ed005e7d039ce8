"""The rule for the first word of a docstring: a verb or a noun, but no preposition and no bare pronoun."""

import ast
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parent.parent
_FOLDERS: Final = ("model", "service", "loadtest", "deploy", "tests", ".ci")
_WRONG: Final = frozenset(
    "Also As At Because Before Behind Beside But By During For From Here How If In Into It Not Nothing Of On Once "
    "Others Over Since So Such That Then There These They This Those Through To Under Until What Whatever When "
    "Where Whether Which While Who Whoever Whose Why With Within Without".split()
)
_HOLDERS: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _files() -> list[str]:
    paths = (path for folder in _FOLDERS for path in (_ROOT / folder).rglob("*.py"))
    return sorted(path.relative_to(_ROOT).as_posix() for path in paths)


def _first_words(source: str) -> list[str]:
    """List the first words of all docstrings, including those below attributes."""
    statements = [each for node in ast.walk(ast.parse(source)) if isinstance(node, _HOLDERS) for each in node.body]
    values = [
        each.value.value for each in statements if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
    ]
    return [value.split(maxsplit=1)[0].strip(",.;:") for value in values if isinstance(value, str)]


def test_no_docstring_begins_with_a_preposition_or_a_bare_pronoun() -> None:
    wrong = {
        file: words
        for file in _files()
        if (words := _WRONG & set(_first_words((_ROOT / file).read_text(encoding="utf-8"))))
    }
    assert wrong == {}


def test_docstrings_of_attributes_count_too() -> None:
    source = '"""Module."""\nclass A:\n    """Of a kind."""\n    b: int\n    """Those."""\nasync def c(): "As it is."\n'
    assert _first_words(source) == ["Module", "Of", "Those", "As"]
