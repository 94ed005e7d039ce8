"""The scan of a models directory: directories and packages are models."""

import errno
import os
from pathlib import Path

import pytest

from model.checkpoint_config import CheckpointError
from service.registry.scan import ignored_entries, scan


def test_directories_and_packages_are_models(tmp_path: Path) -> None:
    for name in ("b", "a", ".hidden"):
        (tmp_path / name).mkdir()
    for name in ("zh_en.argosmodel", "README.md"):
        (tmp_path / name).write_text("")
    assert list(scan(tmp_path)) == ["a", "b", "zh_en.argosmodel"]


def test_other_entries_are_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("b.argosmodel", "README.md", "weights.bin", ".hidden"):
        (tmp_path / name).write_text("")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert ignored_entries(tmp_path, scan(tmp_path)) == ["README.md", "gone", "weights.bin"]


def test_changed_files_are_another_version(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "config.json"
    file.write_text("{}")
    before = scan(tmp_path)["a"]
    assert scan(tmp_path)["a"] == before
    os.utime(file, (1, 1))
    assert scan(tmp_path)["a"] != before


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere: No such file"):
        scan(tmp_path / "nowhere")


def test_an_unreadable_model_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    is_dir = Path.is_dir

    def stale(path: Path) -> bool:
        if path.name == "a":
            raise OSError(errno.ESTALE, "Stale file handle")
        return is_dir(path)

    monkeypatch.setattr(Path, "is_dir", stale)
    assert list(scan(tmp_path)) == ["b"]
