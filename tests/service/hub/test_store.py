"""The cache of pulled models."""

import os
from pathlib import Path

import pytest

from model.checkpoint_config import Origin, load_config
from model.tokenizer import Tokenizer
from service.hub.names import parse_name
from service.hub.store import Store
from tests.system.models import write_model

COMMITS = ("a" * 40, "b" * 40)


def _keep(store: Store, directory: Path, tokenizer: Tokenizer, origin: Origin, age: int = 0) -> Path:
    write_model(directory / "made", tokenizer, "en-de")
    store.staging(origin)
    path = store.keep(directory / "made", origin)
    os.utime(path, (1_000_000_000 - age,) * 2)
    return path


@pytest.fixture
def paths(store: Store, tmp_path: Path, tokenizer: Tokenizer) -> list[Path]:
    origins = [
        Origin(name="hf:acme/en-de", revision=COMMITS[0], aliases=("main",), url="there"),
        Origin(name="hf:acme/en-de", revision=COMMITS[1], aliases=("main",), url="there", licence="mit"),
        Origin(name="firefox:en-de", revision="tiny-3.0", aliases=("tiny", "3.0"), url="there"),
    ]
    return [_keep(store, tmp_path, tokenizer, origin, age=-number) for number, origin in enumerate(origins)]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("acme/en-de", 1),  # the newer
        ("Acme/EN-de", 1),
        ("acme/en-de@main", 1),
        (f"acme/en-de@{COMMITS[0]}", 0),
        ("acme/en-de@aaaaaaa", 0),
        ("acme/en-de@aaaaaa", None),
        ("acme/en-de@v2", None),
        ("acme/en", None),
        ("firefox:en-de", 2),
        ("firefox:en-de@tiny", 2),
        ("firefox:en-de@base", None),
        ("argos:en-de", None),
    ],
)
def test_a_name_finds_its_model(name: str, found: int | None, store: Store, paths: list[Path]) -> None:
    assert store.find(parse_name(name)) == (None if found is None else paths[found])


def test_a_checkpoint_has_its_origin(store: Store, paths: list[Path]) -> None:
    assert load_config(paths[1]).origin == Origin(
        name="hf:acme/en-de", revision=COMMITS[1], aliases=("main",), url="there", licence="mit"
    )
    assert [each.path for each in store.entries()] == [paths[2], paths[1], paths[0]]
    assert paths[2].name == "firefox--en-de--tiny-3.0"


def test_nothing_is_here_before_the_first(store: Store) -> None:
    assert store.entries() == []
    assert store.find(parse_name("argos:en-de")) is None


def test_what_is_damaged_is_not_here_and_is_replaced(
    store: Store, paths: list[Path], tmp_path: Path, tokenizer: Tokenizer
) -> None:
    (paths[2] / "config.json").write_text("{")
    assert store.find(parse_name("firefox:en-de")) is None
    origin = Origin(name="firefox:en-de", revision="tiny-3.0", url="there")
    assert _keep(store, tmp_path, tokenizer, origin) == paths[2]
    assert store.find(parse_name("firefox:en-de")) == paths[2]


def test_a_model_is_removed(store: Store, paths: list[Path]) -> None:
    for entry in store.matching(parse_name("acme/en-de")):
        assert entry.size > 10_000
        store.remove(entry)
    assert [each.path for each in store.entries()] == [paths[2]]
    assert not paths[0].exists()
    assert not list(paths[0].parent.glob(".removed*"))
