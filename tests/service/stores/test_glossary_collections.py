"""Collections: several dictionaries under one name, replaced one by one, each file whole."""

from pathlib import Path

import pytest

from model.checkpoint_config import Direction
from service.errors import InsufficientStorage, InvalidRequest, TooLong, UnknownGlossary
from service.stores import glossary_collections
from service.stores.glossary_collections import Collection, Dictionary, GlossaryCollections
from service.stores.glossary_store import GlossaryStore, PartOf

FRENCH, GERMAN = Direction(source="en", target="fr"), Direction(source="en", target="de")
CAT, KATZE = Dictionary(FRENCH, {"cat": "matou"}), Dictionary(GERMAN, {"cat": "Mieze"})


def _entries(store: GlossaryStore, known: Collection) -> dict[str, dict[str, str]]:
    return {part.target: store.entries_of(part) for part in known.parts}


def test_a_collection_has_a_dictionary_for_each_direction(tmp_path: Path) -> None:
    store = GlossaryStore(tmp_path)
    collections = GlossaryCollections(store)
    made = collections.create("pets", [CAT, KATZE], "anna")
    assert collections.all("anna") == [collections.find(made.id, "anna")]
    assert (made.name, made.id) == ("pets", collections.all("anna")[0].id)
    assert [part.target for part in made.parts] == ["fr", "de"]
    assert (collections.all(None), store.all("anna")) == ([], [])
    for identifier in (made.id, "pets"):
        for target, word in (("fr", "matou"), ("de", "Mieze")):
            [term] = store.glossary([identifier], "anna", "en", target).find("a cat")
            assert term.translation == word
        with pytest.raises(InvalidRequest, match="language pair en-es; it has en-de and en-fr"):
            store.glossary([identifier], "anna", "en", "es")
    for unknown in (lambda: collections.find(made.id, None), lambda: store.find(made.id, "anna")):
        with pytest.raises(UnknownGlossary):
            unknown()


def test_a_glossary_by_itself_is_a_collection(tmp_path: Path) -> None:
    store = GlossaryStore(tmp_path)
    collections = GlossaryCollections(store)
    single = store.add("pets", FRENCH, CAT.entries, None)
    assert [(each.id, each.name, len(each.parts)) for each in collections.all(None)] == [(single.id, "pets", 1)]
    changed = collections.merge(single.id, None, "animals", [KATZE])
    assert (changed.id, changed.name) == (single.id, "animals")
    assert _entries(store, changed) == {"fr": {"cat": "matou"}, "de": {"cat": "Mieze"}}
    assert store.all(None) == []


def test_dictionaries_are_replaced_merged_and_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = GlossaryStore(tmp_path)
    collections = GlossaryCollections(store)
    made = collections.create("pets", [CAT, KATZE], None)
    collections.replace(made.id, None, Dictionary(FRENCH, {"dog": "toutou"}))
    merged = collections.merge(made.id, None, None, [Dictionary(GERMAN, {"cat": "Katze", "dog": "Hund"})])
    expected = {"fr": {"dog": "toutou"}, "de": {"cat": "Katze", "dog": "Hund"}}
    assert (merged.name, merged.created_at, _entries(store, merged)) == ("pets", made.created_at, expected)
    assert len([*tmp_path.iterdir()]) == 2
    monkeypatch.setattr(glossary_collections, "MAX_ENTRIES", 2)
    with pytest.raises(TooLong, match="dictionaries: 3 entries in one, the limit is 2"):
        collections.merge(made.id, None, None, [Dictionary(GERMAN, {"bird": "Vogel"})])
    collections.delete_part(made.id, None, FRENCH)
    assert [part.target for part in collections.find(made.id, None).parts] == ["de"]
    with pytest.raises(UnknownGlossary, match="has no dictionary from en into fr"):
        collections.delete_part(made.id, None, FRENCH)
    collections.delete_part(made.id, None, GERMAN)
    with pytest.raises(UnknownGlossary, match="no glossary has this id"):
        collections.delete(made.id, None)
    assert [*tmp_path.iterdir()] == []


def test_the_highest_revision_counts(tmp_path: Path) -> None:
    """A replacement is there before the part that it replaces is gone."""
    store = GlossaryStore(tmp_path)
    collections = GlossaryCollections(store)
    made = collections.create("pets", [CAT], None)
    newer = store.add("animals", FRENCH, {"cat": "minou"}, None, PartOf(made.id, made.created_at, 7))
    [found] = collections.all(None)
    assert (found.name, [each.id for each in found.parts]) == ("animals", [newer.id])
    assert store.for_direction(made.id, None, "en", "fr").id == newer.id
    older = made.parts[0].id
    assert store.for_direction(older, None, "en", "fr").id == older, "as a resumed stream needs it"


def test_a_collection_is_stored_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = GlossaryStore(tmp_path)
    add = store.add

    def full(name: str, direction: Direction, *more: object) -> object:
        if direction == GERMAN:
            raise InsufficientStorage("glossaries")
        return add(name, direction, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "add", full)
    with pytest.raises(InsufficientStorage):
        GlossaryCollections(store).create("pets", [CAT, KATZE], None)
    assert [*tmp_path.iterdir()] == []
