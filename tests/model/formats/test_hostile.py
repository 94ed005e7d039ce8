"""Checkpoints that were made to harm: each is refused with its reason, runs nothing, and leaves nothing."""

import shutil
from pathlib import Path

import pytest

from model.checkpoint_config import CheckpointError
from model.formats import import_checkpoint
from model.source_files import check_kinds, source_bytes
from model.tokenizer import Tokenizer
from tests.model.formats.builders import m2m100
from tests.model.formats.hostile import EXECUTED, KINDS, MAX_BYTES, make


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Path:
    directory = tmp_path_factory.mktemp("valid")
    m2m100(directory, tokenizer)
    return directory


def test_the_valid_checkpoint_is_imported(valid: Path, tmp_path: Path) -> None:
    assert import_checkpoint(valid, tmp_path / "made", max_bytes=MAX_BYTES).languages == ("de", "en", "fr")


@pytest.mark.timeout(60)  # a FIFO or a device would be read for ever
@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_checkpoint_is_refused(kind: str, valid: Path, tmp_path: Path) -> None:
    path, made = tmp_path / "source" / "checkpoint", tmp_path / "made"
    path.parent.mkdir()
    made.mkdir()
    make(kind, valid, path)
    with pytest.raises(CheckpointError) as refused:
        import_checkpoint(path, made / "ours", max_bytes=MAX_BYTES)
    reason = str(refused.value)
    assert reason.startswith(str(tmp_path)) or reason.startswith("the vocabulary has the id"), reason
    assert len(reason.splitlines()) == 1
    assert not (path.parent / EXECUTED).exists()
    assert list(made.iterdir()) == []


def test_a_link_inside_of_the_directory_is_followed(valid: Path, tmp_path: Path) -> None:
    path = shutil.copytree(valid, tmp_path / "checkpoint")
    (path / "blobs").mkdir()
    (path / "vocab.json").rename(path / "blobs" / "1")
    (path / "vocab.json").symlink_to("blobs/1")
    import_checkpoint(path, tmp_path / "made", max_bytes=MAX_BYTES)


def test_links_of_hugging_face_s_cache_are_followed(valid: Path, tmp_path: Path) -> None:
    entry = tmp_path / "models--a--b"
    revision = entry / "snapshots" / "1"
    shutil.copytree(valid, entry / "blobs")
    revision.mkdir(parents=True)
    for path in (entry / "blobs").iterdir():
        (revision / path.name).symlink_to(Path("../../blobs", path.name))
    import_checkpoint(revision, tmp_path / "made", max_bytes=MAX_BYTES)
    (revision / "vocab.json").unlink()
    shutil.copy(valid / "vocab.json", tmp_path / "vocab.json")
    (revision / "vocab.json").symlink_to("../../../vocab.json")
    with pytest.raises(CheckpointError, match=r"vocab\.json: is a link to .*, which is not in the directory"):
        import_checkpoint(revision, tmp_path / "again", max_bytes=MAX_BYTES)


def test_hidden_files_are_neither_read_nor_counted(valid: Path, tmp_path: Path) -> None:
    path = shutil.copytree(valid, tmp_path / "checkpoint")
    size = source_bytes(path, MAX_BYTES)
    (path / ".git").mkdir()
    (path / ".git" / "link").symlink_to("/dev/zero")
    (path / ".git" / "object").write_bytes(bytes(1000))
    assert source_bytes(path, MAX_BYTES) == size == sum(each.stat().st_size for each in valid.iterdir())


def test_the_limit_is_that_of_the_caller(valid: Path, tmp_path: Path) -> None:
    size = source_bytes(valid, MAX_BYTES)
    assert source_bytes(valid, size) == size
    with pytest.raises(CheckpointError, match=r"has 1 MB unpacked, the limit is 1 MB"):
        import_checkpoint(valid, tmp_path / "made", max_bytes=size - 1)


def test_one_s_own_checkpoint_may_link_to_files_elsewhere_but_to_no_device(valid: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").symlink_to(valid / "config.json")
    check_kinds(tmp_path)
    (tmp_path / "tokenizer.model").symlink_to("/dev/null")
    with pytest.raises(CheckpointError, match=r"tokenizer\.model: is a device, not a regular file"):
        check_kinds(tmp_path)
