"""Collections of glossaries under one name, one for each direction, as DeepL's third version has them.

The parts are glossaries of the store, whose files never change: a part is replaced by one with a higher revision.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from model.checkpoint_config import Direction
from service.errors import TooLong, UnknownGlossary
from service.stores.glossary_store import Description, GlossaryStore, PartOf
from service.text.glossary import MAX_ENTRIES


class Dictionary(NamedTuple):
    """The entries for one direction."""

    direction: Direction
    entries: Mapping[str, str]


@dataclass(frozen=True)
class Collection:
    id: str
    name: str
    created_at: datetime
    parts: Sequence[Description]
    """One for each direction, in the order in which they were added."""


class GlossaryCollections:
    """The collections of a store; a glossary outside of collections counts as a collection.

    All methods read or write files, and raise the errors of the store. Owners see only their own collections.
    """

    def __init__(self, store: GlossaryStore) -> None:
        self._store = store

    def all(self, owner: str | None) -> list[Collection]:
        """List the collections of an owner, the oldest first."""
        found: dict[str, dict[tuple[str, str], Description]] = {}
        for each in sorted(self._store.parts(owner), key=lambda part: part.revision):
            found.setdefault(each.collection_id, {})[each.source, each.target] = each
        collections = (_collection(identifier, [*parts.values()]) for identifier, parts in found.items())
        return sorted(collections, key=lambda each: (each.created_at, each.id))

    def find(self, identifier: str, owner: str | None) -> Collection:
        """Find a collection by its id. Raises `UnknownGlossary`."""
        found = next((each for each in self.all(owner) if each.id == identifier), None)
        if found is None:
            raise UnknownGlossary("no glossary has this id")
        return found

    def part(self, identifier: str, owner: str | None, direction: Direction) -> Description:
        """Find the part of a collection for one direction. Raises `UnknownGlossary`."""
        parts = self.find(identifier, owner).parts
        found = next((each for each in parts if (each.source, each.target) == direction.codes()), None)
        if found is None:
            raise UnknownGlossary(f"has no dictionary from {direction.source} into {direction.target}")
        return found

    def create(self, name: str, dictionaries: Sequence[Dictionary], owner: str | None) -> Collection:
        """Store a collection, whole or not at all."""
        identifier, now = str(uuid.uuid4()), datetime.now(UTC)
        made: list[Description] = []
        try:
            for number, each in enumerate(dictionaries):
                part_of = PartOf(identifier, now, number)
                made.append(self._store.add(name, each.direction, each.entries, owner, part_of))
        except BaseException:
            for part in made:
                self._store.remove(part)
            raise
        return _collection(identifier, made)

    def replace(self, identifier: str, owner: str | None, dictionary: Dictionary) -> Description:
        """Replace the dictionary of the same direction, or add a new one."""
        known = self.find(identifier, owner)
        return self._put(known, known.name, dictionary, owner)

    def merge(self, identifier: str, owner: str | None, name: str | None, added: Sequence[Dictionary]) -> Collection:
        """Rename a collection, if `name` is given, and add entries to its dictionaries. Raises `TooLong`."""
        known = self.find(identifier, owner)
        old = {(each.source, each.target): each for each in known.parts}
        changed: dict[tuple[str, str], Dictionary] = {}
        if name is not None:
            changed = {codes: self._dictionary(each) for codes, each in old.items()}
        for each in added:
            codes = each.direction.codes()
            before = changed[codes].entries if codes in changed else {}
            if codes in old and codes not in changed:
                before = self._store.entries_of(old[codes])
            merged = {**before, **each.entries}
            if len(merged) > MAX_ENTRIES:
                raise TooLong("dictionaries", f"{len(merged)} entries in one, the limit is {MAX_ENTRIES}")
            changed[codes] = Dictionary(each.direction, merged)
        for dictionary in changed.values():
            self._put(known, name or known.name, dictionary, owner)
        return self.find(identifier, owner)

    def delete(self, identifier: str, owner: str | None) -> None:
        """Delete a collection; running translations keep it."""
        self.find(identifier, owner)
        self._remove(identifier, owner)

    def delete_part(self, identifier: str, owner: str | None, direction: Direction) -> None:
        """Delete the dictionary of one direction; the last one takes the collection with it."""
        self.part(identifier, owner, direction)
        self._remove(identifier, owner, direction)

    def _put(self, known: Collection, name: str, dictionary: Dictionary, owner: str | None) -> Description:
        revision = 1 + max((each.revision for each in known.parts), default=0)
        part_of = PartOf(known.id, known.created_at, revision)
        made = self._store.add(name, dictionary.direction, dictionary.entries, owner, part_of)
        # The new part counts already.
        self._remove(known.id, owner, dictionary.direction, but=made)
        return made

    def _remove(
        self, identifier: str, owner: str | None, direction: Direction | None = None, but: Description | None = None
    ) -> None:
        for each in self._store.parts(owner):
            is_meant = direction is None or (each.source, each.target) == direction.codes()
            if each.collection_id == identifier and is_meant and (but is None or each.id != but.id):
                self._store.remove(each)

    def _dictionary(self, part: Description) -> Dictionary:
        direction = Direction(source=part.source, target=part.target)
        return Dictionary(direction, self._store.entries_of(part))


def _collection(identifier: str, parts: Sequence[Description]) -> Collection:
    newest = max(parts, key=lambda each: each.revision)
    return Collection(identifier, newest.name, newest.created_at, sorted(parts, key=lambda each: each.revision))
