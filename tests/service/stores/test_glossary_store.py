"""Glossaries in a directory: who sees what, and what several servers do at once."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from model.checkpoint_config import Direction
from service.errors import DamagedGlossary, InsufficientStorage, InvalidRequest, TooLong, UnknownGlossary
from service.stores import glossary_store
from service.stores.glossary_store import GlossaryStore

FRENCH = Direction(source="en", target="fr")


def test_each_key_has_its_own(tmp_path: Path) -> None:
    store = GlossaryStore(tmp_path / "new")
    made = {owner: store.add("pets", FRENCH, {"cat": f"{owner}"}, owner) for owner in ("anna", "ben", None)}
    for owner, own in made.items():
        assert store.all(owner) == [store.find(own.id, owner)] == [store.find("pets", owner)]
        assert store.entries("pets", owner) == {"cat": f"{owner}"}
    with pytest.raises(UnknownGlossary):
        store.delete(made["anna"].id, "ben")
    store.delete(made["anna"].id, "anna")
    assert store.all("anna") == []
    with pytest.raises(UnknownGlossary):
        store.glossary([made["anna"].id], "anna", "en", "fr")


def test_only_its_owner_reads_a_file(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        GlossaryStore(tmp_path).add("pets", FRENCH, {"cat": "matou"}, None)
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o600]


@pytest.mark.parametrize("identifier", ["", "../secret", "00000000-0000-0000-0000-000000000000", "a/b", "*"])
def test_what_is_no_id_is_no_path(tmp_path: Path, identifier: str) -> None:
    (tmp_path / "secret.json").write_text("{}")
    with pytest.raises(UnknownGlossary):
        GlossaryStore(tmp_path / "kept").find(identifier, None)


def test_only_for_its_languages(tmp_path: Path) -> None:
    store = GlossaryStore(tmp_path)
    made = store.add("pets", FRENCH, {"cat": "matou"}, None)
    [term] = store.glossary([made.id], None, "en", "fr").find("a cat")
    assert term.translation == "matou"
    with pytest.raises(InvalidRequest, match="glossary_id: No dictionary found for language pair en-de; it has en-fr"):
        store.glossary([made.id], None, "en", "de")


def test_several_glossaries_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = GlossaryStore(tmp_path)
    pets = store.add("pets", FRENCH, {"cat": "matou", "dog": "toutou"}, None)
    more = store.add("more", FRENCH, {"cat": "minou", "bird": "piaf"}, None)
    found = store.glossary([pets.id, more.id], None, "en", "fr").find("a cat, a dog, a bird")
    assert [term.translation for term in found] == ["matou", "toutou", "piaf"]
    monkeypatch.setattr(glossary_store, "MAX_ENTRIES", 3)
    with pytest.raises(TooLong, match="glossary_ids: 4 entries, the limit is 3"):
        store.glossary([pets.id, more.id], None, "en", "fr")


def test_there_is_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glossary_store, "MOST_GLOSSARIES", 2)
    store = GlossaryStore(tmp_path)
    for name in ("a", "b"):
        store.add(name, FRENCH, {"cat": "matou"}, None)
    with pytest.raises(InvalidRequest, match="you have 2 already"):
        store.add("c", FRENCH, {"cat": "matou"}, None)

    other = store.add("c", FRENCH, {"cat": "matou"}, "anna")
    assert store.all("anna") == [store.find(other.id, "anna")]


OTHER = "11111111-1111-1111-1111-111111111111"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'{"id": "\xff"}',
        b'{"id": ' + b"[" * 100_000,
        {"created_at": "2026-01-01T00:00:00"},
        {"created_at": 0},
        {"source": 1},
        {"id": "22222222-2222-2222-2222-222222222222"},
    ],
)
def test_a_file_that_is_no_glossary_is_passed_over(
    tmp_path: Path, content: bytes | dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    """A dictionary holds the damaged fields of a glossary."""
    store = GlossaryStore(tmp_path)
    made = store.add("pets", FRENCH, {"cat": "matou"}, None)
    if isinstance(content, dict):
        whole = json.loads((tmp_path / f"{made.id}.json").read_bytes()) | {"id": OTHER}
        content = json.dumps(whole | content).encode()
    (tmp_path / f"{OTHER}.json").write_bytes(content)
    (tmp_path / "directory.json").mkdir()
    assert store.all(None) == [store.find("pets", None)] == [store.find(made.id, None)]
    logged = [each.__dict__["glossary"] for each in caplog.records if each.message == "a file is no glossary"]
    assert logged == [OTHER]
    with pytest.raises(UnknownGlossary):
        store.find(OTHER, None)


DAMAGES = {
    "a number": b'{"cat": 1}',
    "no object": b'["cat", "matou"]',
    "nothing": b'{"": "x"}',
    "blank": b'{"cat": " "}',
    "long": b'{"cat": "%s"}' % (b"x" * 201),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_entries_are_no_others_trouble(tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    store = GlossaryStore(tmp_path)
    damaged, good = (store.add(name, FRENCH, {"cat": "matou"}, None) for name in ("damaged", "good"))
    file = tmp_path / f"{damaged.id}.json"
    file.write_bytes(file.read_bytes().replace(b'{"cat":"matou"}', damage))
    for asked in (
        lambda: store.entries(damaged.id, None),
        lambda: store.glossary(["damaged"], None, "en", "fr"),
    ):
        with pytest.raises(DamagedGlossary, match="glossary_id: the file of this glossary is damaged"):
            asked()
    assert {each.__dict__["glossary"] for each in caplog.records} == {damaged.id}
    assert store.entries(good.id, None) == {"cat": "matou"}
    assert [each.name for each in store.all(None)] == ["damaged", "good"]
    store.delete(damaged.id, None)
    assert [each.id for each in store.all(None)] == [good.id]


def test_a_file_is_read_once_for_all_listings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, reader = GlossaryStore(tmp_path), GlossaryStore(tmp_path)
    for name in ("a", "b"):
        writer.add(name, FRENCH, {"cat": "matou"}, None)
    made = reader.all(None)
    assert [each.name for each in made] == ["a", "b"]
    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", lambda path: pytest.fail("it was read before"))
        assert reader.all(None) == made
        assert reader.find("b", None) == made[1]
    writer.delete(made[0].id, None)
    assert reader.all(None) == made[1:]
    with pytest.raises(UnknownGlossary):
        reader.find(made[0].id, None)


def test_what_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(descriptor: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InsufficientStorage, match="glossaries: the server's disk is full"):
        GlossaryStore(tmp_path).add("pets", FRENCH, {"cat": "matou"}, None)
    assert [*tmp_path.iterdir()] == []
    [record] = caplog.records
    assert (record.__dict__["reason"], record.exc_info) == ("no space left", None)


def test_what_cannot_be_deleted_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = GlossaryStore(tmp_path)
    made = store.add("pets", FRENCH, {"cat": "matou"}, None)

    def read_only(path: Path, missing_ok: bool) -> None:
        raise OSError("read-only file system")

    monkeypatch.setattr(Path, "unlink", read_only)
    with pytest.raises(InsufficientStorage):
        store.delete("pets", None)
    assert store.entries(made.id, None) == {"cat": "matou"}


def test_nobody_sees_half_of_one(tmp_path: Path) -> None:
    """Readers and writers of the same directory, side by side."""
    entries = {f"term {number}": "x" * 100 for number in range(500)}

    def write(number: int) -> None:
        store = GlossaryStore(tmp_path)
        store.delete(store.add(f"{number}", FRENCH, entries, None).id, None)

    def read(number: int) -> set[int]:
        store = GlossaryStore(tmp_path)
        return {each.entry_count for _ in range(20) for each in store.all(None)}

    with ThreadPoolExecutor(8) as threads:
        written = [threads.submit(write, number) for number in range(30)]
        seen = [threads.submit(read, number) for number in range(10)]
    assert [each.result() for each in written] == [None] * 30
    assert set().union(*(each.result() for each in seen)) <= {500}
    assert list(tmp_path.iterdir()) == []
