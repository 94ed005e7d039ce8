"""Compiling happens once, and leaves a whole library or a reason."""

import subprocess
from pathlib import Path

import pytest

from model.kernels.compiler import build


def test_a_compiler_that_fails_is_asked_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[list[str]] = []

    def fail(command: list[str], **options: object) -> None:
        calls.append(command)
        raise subprocess.CalledProcessError(1, command, stderr=b"In file included\nx.h:1: error: no such thing\n")

    monkeypatch.setattr("subprocess.run", fail)
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/c++")
    first = 0
    for _ in range(2):
        with pytest.raises(OSError, match=r"/usr/bin/c\+\+: x\.h:1: error: no such thing"):
            build(tmp_path)
        first = first or len(calls)
    assert len(calls) == first, "the second time nothing was compiled"


def test_what_was_built_is_not_built_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[list[str]] = []

    def compile_nothing(command: list[str], **options: object) -> None:
        calls.append(command)
        Path(command[command.index("-o") + 1]).write_bytes(b"library")

    monkeypatch.setattr("subprocess.run", compile_nothing)
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/c++")
    first, second = build(tmp_path / "new"), build(tmp_path / "new")
    assert first == second
    assert first.read_bytes() == b"library"
    written = [command[command.index("-o") + 1] for command in calls]
    assert len(written) == len(set(written)), "each object once, and the library"
    assert list(first.parent.iterdir()) == [first], "nothing else is left"
