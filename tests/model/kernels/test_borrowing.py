"""A borrowed thread that loses its core to another program is left alone for a while."""

import shutil
import subprocess
from pathlib import Path

import pytest

from model import kernels

_SOURCES = Path(kernels.__file__).parent
_HERE = Path(__file__).parent


def test_late_threads_are_not_borrowed_for_a_while(tmp_path: Path) -> None:
    if shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler")
    program = str(tmp_path / "borrowing")
    sources = [str(_SOURCES / "parts.cpp"), str(_HERE / "borrowing.cpp")]
    command = [
        "c++",
        "-std=c++20",
        "-O1",
        "-pthread",
        f"-I{_SOURCES}",
        *sources,
        "-o",
        program,
    ]
    subprocess.run(command, check=True)
    subprocess.run([program], check=True)
