"""Compiling happens once, and leaves a whole library or a reason."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from model import kernels
from model.kernels.compiler import build, find_compiler


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of a compiler that writes a few bytes, whatever it is asked for."""
    commands: list[list[str]] = []

    def compile_nothing(command: list[str], **options: object) -> None:
        commands.append(command)
        Path(command[command.index("-o") + 1]).write_bytes(b"library")

    monkeypatch.setattr("subprocess.run", compile_nothing)
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/c++")
    return commands


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


def test_what_was_built_is_not_built_again(compiled: list[list[str]], tmp_path: Path) -> None:
    first, second = build(tmp_path / "new"), build(tmp_path / "new")
    assert first == second
    assert first.read_bytes() == b"library"
    written = [command[command.index("-o") + 1] for command in compiled]
    assert len(written) == len(set(written)), "each object once, and the library"
    assert {path.suffix for path in first.parent.iterdir()} == {".so", ".lock", ".sha256"}, "nothing else is left"


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("harm", ["cut", "flipped", "writable", "link", "no sum"])
def test_what_others_may_have_written_is_built_again(tmp_path: Path, harm: str) -> None:
    built = build(tmp_path)
    match harm:
        case "cut":
            built.write_bytes(b"")
        case "flipped":
            built.write_bytes(b"librarx")
        case "writable":
            built.chmod(0o666)
        case "link":
            built.rename(tmp_path / "other")
            built.symlink_to(tmp_path / "other")
        case "no sum":
            built.with_suffix(".sha256").unlink()
    compiled = built.lstat().st_ino
    assert build(tmp_path).read_bytes() == b"library"
    assert built.lstat().st_ino != compiled
    assert not built.is_symlink()
    assert built.stat().st_mode & 0o022 == 0


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("is_built", [False, True])
def test_a_directory_that_others_can_write_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_built: bool
) -> None:
    (tmp_path / "shared").mkdir()
    if is_built:
        build(tmp_path / "shared")
    (tmp_path / "shared").chmod(0o777)
    with pytest.raises(PermissionError, match="can be written by others"):
        build(tmp_path / "shared")
    owned = SimpleNamespace(st_uid=os.getuid() + 1, st_mode=0o40755)
    monkeypatch.setattr(Path, "stat", lambda *_, **__: owned)
    with pytest.raises(PermissionError, match=f"belongs to user {os.getuid() + 1}, .*: chown it"):
        build(tmp_path / "shared")


@pytest.mark.parametrize(
    "failure",
    [
        subprocess.CalledProcessError(-9, "c++", stderr=b""),
        subprocess.CalledProcessError(1, "c++", stderr=b"c++: fatal error: Killed signal terminated program cc1plus\n"),
        subprocess.TimeoutExpired("c++", 600),
    ],
)
@pytest.mark.usefixtures("compiled")
def test_a_compiler_that_was_killed_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failure: subprocess.SubprocessError
) -> None:
    def fail(command: list[str], **options: object) -> None:
        raise failure

    with monkeypatch.context() as broken:
        broken.setattr("subprocess.run", fail)
        with pytest.raises(OSError, match=r"c\+\+"):
            build(tmp_path)
    assert build(tmp_path).exists()


def test_of_those_that_start_together_one_compiles(compiled: list[list[str]], tmp_path: Path) -> None:
    with ThreadPoolExecutor() as executor:
        built = set(executor.map(build, [tmp_path] * 4))
    assert len(built) == 1
    assert sum("-shared" in command for command in compiled) == 1


def test_the_compiler_is_the_environment_s_then_the_system_s(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"clang++": "/usr/bin/clang++", "ccache": "/usr/bin/ccache"}
    monkeypatch.setattr("shutil.which", there.get)
    for variable, command in (
        ("", ["/usr/bin/clang++"]),
        ("ccache g++ -m64", ["/usr/bin/ccache", "g++", "-m64"]),
        ("icpx", ["/usr/bin/clang++"]),  # that is not there
    ):
        monkeypatch.setenv("CXX", variable)
        compiler = find_compiler()
        assert compiler is not None
        assert compiler.command == command
    there.clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    compiler = find_compiler()
    assert compiler is not None
    assert compiler.command == [sys.executable, "-P", "-m", "ziglang", "c++"]


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("home", ["read-only", "none"])
def test_without_a_cache_the_library_goes_into_a_private_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: str, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "file").touch()  # no directory can be made in it, not even by the administrator
    loaded: list[Path] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    if home == "none":
        request.getfixturevalue("homeless")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(kernels.library, "load", loaded.append)
    monkeypatch.setattr(kernels, "file_name", lambda: "none.so")
    for _ in range(2):
        kernels._load()
    [directory] = {path.parent for path in loaded}
    assert directory == tmp_path / f"dragoman-{os.getuid()}"
    assert directory.stat().st_mode & 0o077 == 0


def test_someone_else_s_private_directory_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/c++")
    (tmp_path / "others").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "others")
    with pytest.raises(PermissionError, match="is a link"):
        build(tmp_path / "link", private=True)


def test_without_a_compiler_there_is_a_warning_and_the_fallback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path)
    monkeypatch.setattr(kernels, "file_name", lambda: "none.so")
    kernels.load.cache_clear()
    try:
        assert not kernels.load()
    finally:
        kernels.load.cache_clear()
    assert "6 to 14 times slower: there is no C++ compiler; install g++" in caplog.text
