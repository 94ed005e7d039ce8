"""Every command, started from a directory whose files have the names of our modules: none of them is run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from model.tokenizer import Tokenizer
from tests.system.caches import make_cache
from tests.system.conftest import Server, free_port

_DRAGOMAN = Path(sys.executable).with_name("dragoman")
_HOSTILE = (
    "asyncio.py",
    "httpx.py",
    "json.py",
    "loadtest/__init__.py",
    "model/__init__.py",
    "numpy.py",
    "service/__init__.py",
    "service/__main__.py",
    "sitecustomize.py",
    "torch.py",
    "typer.py",
)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A directory of modules that leave a mark when they are imported."""
    directory = tmp_path / "hostile"
    for name in _HOSTILE:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(tmp_path / 'mark')!r}, 'a').write(__file__)\nraise SystemExit('hostile')\n")
    (directory / "test.tsv").write_text("Yes.\tOui.\n")
    make_cache(tmp_path / "cache")
    return directory


@pytest.fixture
def foreign(tmp_path: Path, tokenizer: Tokenizer) -> Path:
    """A model that a process of its own has to import first."""
    pytest.importorskip("transformers", reason="pip install 'dragoman[load]'")
    from tests.model.formats.builders import m2m100

    directory = tmp_path / "foreign"
    directory.mkdir()
    m2m100(directory, tokenizer)
    return directory


def _environment(hostile: Path) -> dict[str, str]:
    return os.environ | {"XDG_CACHE_HOME": str(hostile.parent / "cache")}


def _run(hostile: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command, environment = [str(_DRAGOMAN), *arguments], _environment(hostile)
    return subprocess.run(
        command, cwd=hostile, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


def _executed(hostile: Path) -> str:
    """The files that were run."""
    mark = hostile.parent / "mark"
    return mark.read_text() if mark.exists() else ""


_ALL_ALIKE = {
    ("--version",): (0, "dragoman "),
    ("robustness", "--source", "xx"): (2, "the model translates en-fr"),
    ("train", "none.toml", "--data", ".", "--output", "run"): (2, "none.toml"),
    ("distill", "none.toml", "--teacher", ".", "--data", ".", "--output", "run"): (2, "none.toml"),
}
"""Commands of one process, which find their modules as those do that are always tried."""


@pytest.mark.parametrize(
    ("arguments", "status", "output"),
    [
        (("keys", "add", "kiosk", "--keys", "keys.db"), 0, "dragoman-"),
        (("evaluate", "test.tsv"), 0, "BLEU = "),
        *(pytest.param(arguments, *expected, marks=pytest.mark.slow) for arguments, expected in _ALL_ALIKE.items()),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_commands_of_one_process(hostile: Path, arguments: tuple[str, ...], status: int, output: str) -> None:
    done = _run(hostile, *arguments)
    assert _executed(hostile) == ""
    assert done.returncode == status, done.stderr
    assert output in done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("translate", "I see a cat."),
        pytest.param(("doctor", "--seconds", "0.1", "--replicas", "1"), marks=pytest.mark.slow),
    ],
    ids=["translate", "doctor"],
)
def test_commands_that_start_engines(hostile: Path, arguments: tuple[str, ...]) -> None:
    done = _run(hostile, *arguments)
    assert _executed(hostile) == ""
    assert done.returncode == 0, done.stderr


def test_import(hostile: Path, foreign: Path) -> None:
    done = _run(hostile, "import", str(foreign), "--output", "made")
    assert _executed(hostile) == ""
    assert done.returncode == 0, done.stderr


def test_a_server_that_imports_its_model_first(hostile: Path, foreign: Path, tmp_path: Path) -> None:
    port = free_port()
    command = [str(_DRAGOMAN), "serve", "--model", str(foreign), "--port", str(port), "--replicas", "1"]
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=hostile, env=_environment(hostile), stderr=output, start_new_session=True
        )
    server = Server(process, port, log)
    try:
        server.wait_until_ready()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert _executed(hostile) == ""
