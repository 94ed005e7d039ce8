"""Glossaries in a directory: who sees what, and what several servers do at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from model.manifest import Direction
from service import glossaries
from service.errors import InvalidRequest, UnknownGlossary
from service.glossaries import GlossaryStore

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
        store.glossary(made["anna"].id, "anna", "en", "fr")


@pytest.mark.parametrize("identifier", ["", "../secret", "00000000-0000-0000-0000-000000000000", "a/b", "*"])
def test_what_is_no_id_is_no_path(tmp_path: Path, identifier: str) -> None:
    (tmp_path / "secret.json").write_text("{}")
    with pytest.raises(UnknownGlossary):
        GlossaryStore(tmp_path / "kept").find(identifier, None)


def test_only_for_its_languages(tmp_path: Path) -> None:
    store = GlossaryStore(tmp_path)
    made = store.add("pets", FRENCH, {"cat": "matou"}, None)
    [term] = store.glossary(made.id, None, "en", "fr").find("a cat")
    assert term.translation == "matou"
    with pytest.raises(InvalidRequest, match="glossary_id: is from en into fr, not from en into de"):
        store.glossary(made.id, None, "en", "de")


def test_there_is_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glossaries, "MOST_GLOSSARIES", 2)
    store = GlossaryStore(tmp_path)
    for name in ("a", "b"):
        store.add(name, FRENCH, {"cat": "matou"}, None)
    with pytest.raises(InvalidRequest, match="2 already"):
        store.add("c", FRENCH, {"cat": "matou"}, None)


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
