"""The import of foreign checkpoints while a server runs."""

import asyncio
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from model.checkpoint_config import CheckpointError, load_config
from model.formats import import_checkpoint
from model.tokenizer import Tokenizer
from service.registry.importing import InterruptedImport, ensure_imported, import_in_background


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "dragoman" / "models"


@pytest.fixture
def foreign(tmp_path: Path, tokenizer: Tokenizer) -> Path:
    pytest.importorskip("transformers", reason="pip install 'dragoman[load]'")
    from tests.model.formats.builders import m2m100

    directory = tmp_path / "m2m100"
    directory.mkdir()
    m2m100(directory, tokenizer)
    return directory


def _content(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def test_a_checkpoint_is_imported_once(foreign: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = await import_in_background(foreign)
    assert load_config(place).languages == ("de", "en", "fr")
    assert _content(cache) == [place]

    async def never(*_: object, **__: object) -> None:
        raise AssertionError("the checkpoint exists")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", never)
    assert await import_in_background(foreign) == place


async def test_two_servers_may_import_a_checkpoint_at_once(foreign: Path, cache: Path) -> None:
    places = await asyncio.gather(import_in_background(foreign), import_in_background(foreign))
    assert places[0] == places[1]
    assert load_config(places[0]).languages == ("de", "en", "fr")
    assert _content(cache) == [places[0]]


async def test_an_error_names_the_file(foreign: Path, cache: Path) -> None:
    (foreign / "vocab.json").unlink()
    with pytest.raises(CheckpointError, match=r"vocab\.json"):
        await import_in_background(foreign)
    assert not _content(cache)


async def test_a_name_that_is_no_path_is_answered_with_the_form_of_public_names(cache: Path) -> None:
    for path, hint in ((Path("opus-mt-en-de"), "a public model has a name such as "), (Path("models/en-de"), "")):
        with pytest.raises(CheckpointError) as error:
            await import_in_background(path)
        assert str(error.value).startswith(f"{path}: there is no such file or directory")
        assert hint in str(error.value)
        assert bool(hint) is ("public" in str(error.value))


def _prints(text: str) -> str:
    return f"cat >&2 <<'END'\n{text}\nEND\nexit 3"


@pytest.mark.parametrize(
    ("end", "problem", "message"),
    [
        (_prints("warning: old\ndragoman: model.bin: ends too early"), CheckpointError, "model.bin: ends too early"),
        (_prints("Traceback:\nMemoryError"), CheckpointError, "its import ended with 3; the log says more"),
        (_prints(""), CheckpointError, "its import ended with 3; the log says more"),
        ("echo 'dragoman: x: No space left' >&2; exit 75", InterruptedImport, "x: No space left"),
        ("kill -9 $$", InterruptedImport, "its import was ended by SIGKILL: out of memory?"),
    ],
    ids=["an error", "a traceback", "nothing", "a full disk", "little memory"],
)
def test_only_the_error_itself_is_reported(
    end: str,
    problem: type[CheckpointError],
    message: str,
    foreign: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An import that the machine prevents may succeed later: its error is one of its own."""
    command = foreign.parent / "python"
    command.write_text(f"#!/bin/sh\n{end}\n")
    command.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(command))
    with pytest.raises(CheckpointError, match=f"^{re.escape(message)}$") as raised:
        ensure_imported(foreign)
    assert raised.type is problem
    assert not _content(cache)


async def test_a_server_that_stops_does_not_wait_for_an_import(
    foreign: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def noted(*command: str, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*command, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    importing = asyncio.create_task(import_in_background(foreign))
    while not started:  # noqa: ASYNC110
        await asyncio.sleep(0)
    importing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await importing
    assert started[0].returncode == -9
    assert not _content(cache)


async def test_a_native_checkpoint_stays_in_place(tmp_path: Path) -> None:
    assert await import_in_background(tmp_path) == tmp_path


def test_a_package_is_unpacked_beside_its_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory for temporary files may be small or missing."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with zipfile.ZipFile(tmp_path / "a.argosmodel", "w") as package:
        package.writestr("a/metadata.json", "{}")
    with pytest.raises(CheckpointError):
        import_checkpoint(tmp_path / "a.argosmodel", tmp_path / "made" / "a")
    assert not _content(tmp_path / "made")
