"""The rule for the first word of a docstring: it begins with a verb or with the noun that it describes."""

import ast
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_FOLDERS = (
    "service/access",
    "service/api",
    "service/cli",
    "service/client",
    "service/observability",
    "service/server",
)
_FILES = tuple(sorted(path.name for path in (_ROOT / "service").glob("*.py")))
_FORBIDDEN = frozenset(
    "Also As At Behind Beside Both But By For From Given How If In Inside It Like Not Nothing Of On Once One Only Or "
    "Other Others Outside Over Since So Such That Then There These They This Those To Until What Whatever When Where "
    "Whether Which While Who Whoever Whose Why With Within Without Yes".split()
)


def _first_words(file: Path) -> list[str]:
    """The first words of all docstrings of a file, those of attributes among them."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    bodies = [
        node.body
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    texts = [
        each.value.value
        for body in bodies
        for each in body
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
    ]
    return [f"{file}: {str(text).split(maxsplit=1)[0]}" for text in texts if isinstance(text, str)]
