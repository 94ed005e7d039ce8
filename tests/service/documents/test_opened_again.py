"""Translated documents are opened again by the programs that wrote them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.service.documents.conftest import FILES, Rewrite
from tests.service.documents.test_texts import PO

_OFFICE = shutil.which("soffice")
_GETTEXT = shutil.which("msgfmt")


@pytest.mark.skipif(_OFFICE is None, reason="needs LibreOffice")
@pytest.mark.parametrize(
    ("name", "flat", "expected"),
    [
        ("report.docx", "fodt", "PUBLIC HEALTH"),
        ("report.odt", "fodt", "PUBLIC HEALTH"),
        ("sheet.xlsx", "fods", "THE PRICE OF THE CAR"),
        ("sheet.ods", "fods", "THE PRICE OF THE CAR"),
        ("slides.pptx", "fodp", "PROTECT"),
        ("slides.odp", "fodp", "PROTECT"),
    ],
)
def test_by_libreoffice(name: str, flat: str, expected: str, rewrite: Rewrite, tmp_path: Path) -> None:
    assert _OFFICE is not None
    document = tmp_path / name
    document.write_bytes(rewrite(name, (FILES / name).read_bytes()))
    profile = f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}"
    command = [_OFFICE, profile, "--headless", "--convert-to", flat, "--outdir", str(tmp_path), str(document)]
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    assert expected in document.with_suffix(f".{flat}").read_text()


@pytest.mark.skipif(_GETTEXT is None, reason="needs gettext")
def test_by_gettext(rewrite: Rewrite, tmp_path: Path) -> None:
    assert _GETTEXT is not None
    (tmp_path / "a.po").write_bytes(rewrite("a.po", PO))
    command = [
        _GETTEXT,
        "--check-format",
        "--use-fuzzy",
        "--output-file",
        str(tmp_path / "a.mo"),
        str(tmp_path / "a.po"),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    assert b'THE "HOUSE"\n' in (tmp_path / "a.mo").read_bytes()
