"""Damaged checkpoints load, or are refused with the file's name; nothing else is raised."""

import contextlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from model.checkpoint import load_model
from model.checkpoint_config import CheckpointError, load_config, load_tokenizer
from model.tokenizer import Tokenizer
from tests.conftest import forget_sums
from tests.system.models import write_model

FILES = {"config.json": r"config\.json", "tokenizer.model": "tokenizer", "model.safetensors": r"model\.safetensors"}
"""The name of each file in errors."""
Damage = Callable[[bytes], bytes]


def _flipped(data: bytes, at: int, bits: int = 0xFF) -> bytes:
    return data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :]


def _at_random(data: bytes, size: int) -> bytes:
    at = random.Random(1).randrange(len(data) - size)
    return data[:at] + random.Random(2).randbytes(size) + data[at + size :]


SURE: dict[str, Damage] = {
    "empty": lambda data: b"",
    "one byte": lambda data: data[:1],
    "half": lambda data: data[: len(data) // 2],
    "without the beginning": lambda data: data[100:],
    "something after the end": lambda data: data + b"\xff" * 100,
    "all but the last two bytes": lambda data: data[:-2],
    "zeros": lambda data: bytes(len(data)),
    "another file": lambda data: b"\x7fELF" + random.Random(3).randbytes(1000),
    "first byte": lambda data: _flipped(data, 0),
    "first block": lambda data: random.Random(4).randbytes(4096) + data[4096:],
}
"""Damage that shows in any file, even without knowledge of its content."""


def _load(directory: Path) -> None:
    load_config(directory)
    load_tokenizer(directory)
    load_model(directory)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Path:
    directory = tmp_path_factory.mktemp("small") / "model"
    write_model(directory, tokenizer, "en-fr")
    return directory


@pytest.fixture
def verified(tmp_path: Path, small: Path) -> Path:
    return shutil.copytree(small, tmp_path / "model")


@pytest.fixture(params=["verified", "unverified"])
def checkpoint(request: pytest.FixtureRequest, verified: Path) -> Path:
    if request.param == "unverified":
        forget_sums(verified)
    return verified


@pytest.mark.parametrize("name", ["tokenizer.model", "model.safetensors"])
def test_a_bit_anywhere_counts(verified: Path, name: str) -> None:
    path = verified / name
    whole = path.read_bytes()
    rng = random.Random(6)
    for at in (0, len(whole) - 1, *rng.sample(range(len(whole)), 30)):
        path.write_bytes(_flipped(whole, at, 1 << rng.randrange(8)))
        with pytest.raises(CheckpointError, match=rf"{path.name}: its SHA-256 is not the one in config\.json"):
            _load(verified)
    path.write_bytes(whole)
    _load(verified)


def test_a_bit_anywhere_in_the_sums_counts(verified: Path) -> None:
    """Only changes that no longer fit its fields, or the weights, can be noticed in the rest of config.json."""
    path = verified / "config.json"
    whole = path.read_bytes()
    for at in range(whole.index(b'"sha256"'), len(whole.rstrip())):
        path.write_bytes(_flipped(whole, at, 1))
        with pytest.raises(CheckpointError):
            _load(verified)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", SURE)
def test_damage_that_shows_is_refused_by_the_file_s_name(checkpoint: Path, name: str, damage: str) -> None:
    path = checkpoint / name
    path.write_bytes(SURE[damage](path.read_bytes()))
    with pytest.raises(CheckpointError, match=FILES[name]):
        _load(checkpoint)


@pytest.mark.slow
def test_each_byte_that_describes_the_weights_counts(verified: Path) -> None:
    """First the length of the description, then that. Behind it are numbers: without sums one is as good as another."""
    forget_sums(verified)
    path = verified / "model.safetensors"
    whole = path.read_bytes()
    length = 8 + int.from_bytes(whole[:8], "little")
    for at in (*range(8), *random.Random(5).sample(range(8, length), 50), length - 1):
        path.write_bytes(_flipped(whole, at))
        with pytest.raises(CheckpointError, match=FILES[path.name]):
            _load(verified)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_there_or_is_no_file(checkpoint: Path, name: str) -> None:
    (checkpoint / name).unlink()
    with pytest.raises(CheckpointError, match=FILES[name]):
        _load(checkpoint)
    (checkpoint / name).mkdir()
    with pytest.raises(CheckpointError, match=FILES[name]):
        _load(checkpoint)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_any_other_damage_is_refused_or_harmless(checkpoint: Path, name: str) -> None:
    """Single bytes of the first kilobytes, where formats keep their lengths, and anywhere; cuts anywhere."""
    path = checkpoint / name
    whole = path.read_bytes()
    rng = random.Random(name)
    places = [rng.randrange(min(len(whole), reach)) for reach in (8, 100, 2000, len(whole)) for _ in range(4)]
    cuts = [rng.randrange(len(whole)) for _ in range(6)]
    for damaged in [*(_flipped(whole, at) for at in places), *(whole[:at] for at in cuts), _at_random(whole, 100)]:
        path.write_bytes(damaged)
        with contextlib.suppress(CheckpointError):
            _load(checkpoint)
