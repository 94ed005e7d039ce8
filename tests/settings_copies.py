"""The files that repeat the settings: `python -m tests.settings_copies` writes them, tests compare them."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic.fields import FieldInfo

from service.settings import default_text, flags
from service.settings.retired import RETIRED

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs/configuration.md"
CHART: Final = ROOT / "deploy/helm/dragoman/files/settings.json"
_TABLE: Final = re.compile(r"(?<=<!-- python -m tests.settings_copies -->\n).*(?=<!-- end -->)", re.DOTALL)
_OF_THE_CHART: Final = frozenset({"host", "port", "model", "models", "uds"})
"""Settings that the chart sets from other values."""


def copies() -> Mapping[Path, str]:
    """Return the content that each file should have."""
    page, found = _TABLE.subn(lambda _: f"\n{_table()}\n", PAGE.read_text(encoding="utf-8"))
    assert found == 1
    return {PAGE: page, CHART: json.dumps({"names": _names(), "retired": RETIRED}, indent=1) + "\n"}


def _table() -> str:
    rows = [f"| {group} | {'; '.join(map(_setting, fields, fields.values()))} |" for group, fields in flags().items()]
    return "\n".join(["| group | flags, with their defaults |", "|---|---|", *rows, ""])


def _setting(name: str, setting: FieldInfo) -> str:
    return f"`--{name.replace('_', '-')}` {default_text(setting)}".rstrip()


def _names() -> list[str]:
    return sorted(name for fields in flags().values() for name in fields if name not in _OF_THE_CHART)


if __name__ == "__main__":
    for path, content in copies().items():
        path.write_text(content, encoding="utf-8")
