"""The documentation names only what exists: pages, anchors, commands, options, variables, metrics, routes, files."""

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from service.api.translate_request import TranslateRequest
from service.errors import ServiceError
from tests import markdown
from tests.doc_checks import CHECKS, ROOT, broken_links, metrics, routes
from tests.settings_copies import copies

FOLDERS: Final = ("", ".github/", "deploy/**/", "docs/", "loadtest/", "model/**/")
PAGES: Final = sorted({page for folder in FOLDERS for page in ROOT.glob(f"{folder}*.md")})
MOST_WORDS: Final = 26_000
"""Of README, docs, deploy and loadtest together: who adds a page looks for what it makes needless."""
OTHER_CODES: Final = {"not_found", "method_not_allowed"}
"""Codes of errors that Starlette finds before any route."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert not [*broken_links(page, page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_everything_named_exists(page: Path, check: str) -> None:
    assert not [*CHECKS[check](page.read_text(encoding="utf-8"))]


def test_the_pages_are_few_words() -> None:
    pages = {page for page in PAGES if page.relative_to(ROOT).parts[0] in ("README.md", "deploy", "docs", "loadtest")}
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= MOST_WORDS


def names(rows: Iterable[list[str]]) -> set[str]:
    """Return the code in the first cells of rows."""
    return {name for cells in rows for name in re.findall(r"`([^`]+)`", cells[0])}


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", copies(), ids=lambda path: path.name)
def test_all_settings_are_described(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == copies()[path], "`python -m tests.settings_copies` writes it"


def test_all_options_of_a_request_are_described() -> None:
    assert names(markdown.tables(page("api.md"), "Options")) == set(TranslateRequest.model_fields)


def test_all_metrics_are_described() -> None:
    assert names(markdown.tables(page("configuration.md"), "Metrics")) == metrics()


def test_all_routes_are_described() -> None:
    tables = (("api.md", "Routes"), ("clients.md", "Browser extensions and other servers"))
    assert names(row for name, heading in tables for row in markdown.tables(page(name), heading)) == routes()


def test_all_error_codes_are_described() -> None:
    def codes_of(kind: type[ServiceError]) -> set[str]:
        return {kind.code}.union(*map(codes_of, kind.__subclasses__()))

    codes = codes_of(ServiceError)
    rows = markdown.tables(page("api.md"), "Errors")
    assert {code for cells in rows for code in re.findall(r"`([^`]+)`", cells[1])} == codes | OTHER_CODES


def test_the_core_path_is_as_short_as_its_page_says() -> None:
    paths = names(markdown.tables(page("architecture.md"), "The core path"))
    assert sum(lines_of_code((ROOT / path).read_text(encoding="utf-8")) for path in paths) < 3000


def lines_of_code(source: str) -> int:
    """Count the lines with more than a comment or a docstring."""
    strings = [
        each
        for each in ast.walk(ast.parse(source))
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
    ]
    prose = {line for each in strings for line in range(each.lineno, (each.end_lineno or 0) + 1)}
    lines = enumerate(source.splitlines(), start=1)
    return sum(number not in prose and line.partition("#")[0].strip() != "" for number, line in lines)


MADE_UP: Final = """
# A page

[gone](docs/gone.md) [nowhere](#nowhere) [here](#a-page) [docs](docs/api.md#errors) [away](https://example.org/x)

```sh
DRAGOMAN_SLOTS=8 dragoman serve --slots 8 --colour red && dragoman sing
python -m loadtest.promises oracle FILE --at-least 1 --at-best 2 -- --replicas 1 --engines 2
python -m loadtest.nothing
```

<!-- at commit 0123456 -->
```sh
dragoman dance
```

`--max-waiting 8`, `--max-hurry`, `DRAGOMAN_SLOTS`, `DRAGOMAN_SPOONS`, `dragoman_ready`, `dragoman_happy`,
`dragoman translate -s en --quickly`, `service/errors.py`, `engine/loop.py`, `service/virtues.py`, `POST /translate`,
`POST /sing`, `oracle FILE --count 3 --aloud`, `docker run --gpus all` and `other/file.py`.
"""


def test_what_is_wrong_is_found() -> None:
    assert [*broken_links(ROOT / "README.md", MADE_UP)] == ["docs/gone.md", "#nowhere"]
    found = {name: [*check(MADE_UP)] for name, check in CHECKS.items()}
    assert found == {
        "commands": [
            "--colour",
            "dragoman sing",
            "--at-best",
            "--engines",
            "python -m loadtest.nothing",
            "--quickly",
        ],
        "options": ["--max-hurry", "--quickly", "--aloud"],
        "variables": ["DRAGOMAN_SPOONS"],
        "metrics": ["dragoman_happy"],
        "files": ["service/virtues.py"],
        "routes": ["POST /sing"],
    }
