"""The files that repeat the settings: `python -m tests.settings_copies` writes them, tests compare them."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from service.settings import default_text, flags
from service.settings.retired import RETIRED

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs/configuration.md"
CHART: Final = ROOT / "deploy/helm/dragoman/files/settings.json"
_TABLES: Final = re.compile(r"(?<=<!-- python -m tests.settings_copies -->\n).*(?=<!-- end -->)", re.DOTALL)
_OF_THE_CHART: Final = frozenset({"host", "port", "model", "models", "uds"})
"""Settings that the chart sets from other values."""


def copies() -> Mapping[Path, str]:
    """Return the content that each file should have."""
    page, found = _TABLES.subn(lambda _: f"\n{_tables()}\n", PAGE.read_text(encoding="utf-8"))
    assert found == 1
    return {PAGE: page, CHART: json.dumps({"names": _names(), "retired": RETIRED}, indent=1) + "\n"}


def _tables() -> str:
    tables = []
    for group, fields in flags().items():
        cells = [
            (f"`--{name.replace('_', '-')}`", default_text(each), each.description) for name, each in fields.items()
        ]
        rows = [f"| {flag} | {default or '-'} | {meaning} |" for flag, default, meaning in cells]
        tables.append("\n".join([f"**{group}**", "", "| flag | default | meaning |", "|---|---|---|", *rows, ""]))
    # Flags within the text are code.
    return re.sub(r"(?<!`)--[a-z][a-z-]*", r"`\g<0>`", "\n".join(tables))


def _names() -> list[str]:
    return sorted(name for fields in flags().values() for name in fields if name not in _OF_THE_CHART)


if __name__ == "__main__":
    for path, content in copies().items():
        path.write_text(content, encoding="utf-8")
