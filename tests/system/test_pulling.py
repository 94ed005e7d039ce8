"""`dragoman pull` as a user runs it: its own process, the real importer, and what can go wrong on the way."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from model.checkpoint_config import load_config
from model.tokenizer import Tokenizer
from tests.disks import SmallDisk
from tests.service.hub.servers import FileServer, argos_entry, file_server, publish_repository
from tests.system.commands import dragoman

OPUS = "acme/opus-mt-en-de"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FileServer]:
    """The hub and Argos' index; the cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("HF_HOME", "HF_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    with file_server() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setenv("DRAGOMAN_ARGOS_INDEX", f"{running.url}/index.json")
        yield running


def _error(*arguments: str) -> str:
    """Return the only line of an error."""
    done = dragoman("pull", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    return line


def _kept(cache: Path) -> list[str]:
    """Return the files that our cache has, except locks."""
    hub = cache / "dragoman"
    return [str(path) for path in hub.rglob("*") if path.is_file() and path.suffix != ".lock"]


def _publish_marian(server: FileServer, directory: Path, tokenizer: Tokenizer, **changes: Any) -> None:
    pytest.importorskip("transformers", reason="pip install 'dragoman[load]'")
    from tests.model.formats.builders import marian

    directory.mkdir()
    marian(directory, tokenizer, **changes)
    publish_repository(server, OPUS, {path.name: path.read_bytes() for path in directory.iterdir()})


def test_a_model_of_the_hub_is_imported(server: FileServer, tmp_path: Path, tokenizer: Tokenizer) -> None:
    _publish_marian(server, tmp_path / "marian", tokenizer)
    done = dragoman("pull", OPUS)
    assert done.returncode == 0, done.stderr
    config = load_config(Path(done.stdout.strip().partition(": ")[2]))
    assert [str(direction) for direction in config.directions] == ["en-de"]  # of the model's name
    assert config.origin is not None
    assert config.origin.sha256.keys() == {"config.json", "model.safetensors", "source.spm", "target.spm", "vocab.json"}
    assert "generation_config.json" not in {path.rpartition("/")[2] for _, path, _ in server.requests}


def test_every_reason_against_a_model_is_in_one_line(server: FileServer, tmp_path: Path, tokenizer: Tokenizer) -> None:
    _publish_marian(server, tmp_path / "marian", tokenizer, add_final_layer_norm=True, activation_function="quick_gelu")
    line = _error(OPUS)
    assert line.startswith(f"dragoman: hf:{OPUS}: ")
    assert "not supported: activation_function is quick_gelu; add_final_layer_norm is True" in line
    assert not _kept(tmp_path / "cache")


def test_an_archive_that_leaves_its_directory(server: FileServer, tmp_path: Path) -> None:
    archive = tmp_path / "package.zip"
    with zipfile.ZipFile(archive, "w") as package:
        package.writestr("../../evil", "x")
        package.writestr("/tmp/evil-of-dragoman", "x")
        package.writestr("a/metadata.json", json.dumps({"from_code": "en", "to_code": "de"}))
    server.put("/package", archive.read_bytes())
    server.put_json("/index.json", [argos_entry("en", "de", "1.0", f"{server.url}/package")])
    assert _error("argos:en-de").startswith("dragoman: argos:en-de: ")
    assert not _kept(tmp_path / "cache")
    assert not list(tmp_path.rglob("evil"))
    assert not Path("/tmp/evil-of-dragoman").exists()


def test_a_disk_that_fills_up_during_the_download(
    server: FileServer, disk: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(disk.path))
    server.put("/package", bytes(3_000_000))  # the disk has one megabyte, and the index says nothing of the size
    server.put_json("/index.json", [argos_entry("en", "de", "1.0", f"{server.url}/package")])
    assert _error("argos:en-de") == "dragoman: argos:en-de: the disk of the cache is full; nothing was kept"
    assert not _kept(disk.path)


def test_an_interrupted_download_is_continued_by_the_next_process(server: FileServer, tmp_path: Path) -> None:
    server.put("/package", bytes(1_000_000), cuts=[400_000, *[0] * 5])
    server.put_json("/index.json", [argos_entry("en", "de", "1.0", f"{server.url}/package")])
    assert "cut the connection" in _error("argos:en-de")
    assert "a file must be an Argos package" in _error("argos:en-de")  # all of it has come
    assert server.gets("/package")[-1]["range"] == "bytes=400000-"
    assert not _kept(tmp_path / "cache")
