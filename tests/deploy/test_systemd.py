"""The unit for systemd."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.deploy.conftest import ROOT

UNIT: Final = ROOT / "deploy/systemd/dragoman.service"

pytestmark = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="SKIPPED: no systemd-analyze; Debian's package systemd has it"
)


def _analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)


def test_the_service_has_few_rights() -> None:
    done = _analyze("security", "--offline=true", "--threshold=20", str(UNIT))
    assert done.returncode == 0, done.stdout
    assert "Overall exposure level" in done.stdout


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/dragoman/bin/dragoman", sys.executable))
    done = _analyze("verify", str(unit))
    assert (done.returncode, done.stderr) == (0, "")
