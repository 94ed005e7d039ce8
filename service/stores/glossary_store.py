"""The store of glossaries: one file each, in a directory that several servers may share.

A file is written whole and never changes: no reader sees half a file, and its content may be cached.
"""

import logging
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET

from model.checkpoint_config import Direction
from service.errors import DamagedGlossary, InsufficientStorage, InvalidRequest, TooLong, UnknownGlossary
from service.text.glossary import LONGEST_TERM, MAX_ENTRIES, VISIBLE, Glossary

logger = logging.getLogger(__name__)

MOST_GLOSSARIES: Final = 1000
"""Limit for each owner."""
_IN_MEMORY: Final = 32
_PRIVATE: Final = 0o600


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A glossary without its entries."""

    id: str
    name: str
    source: str
    target: str
    created_at: Annotated[datetime, msgspec.Meta(tz=True)]
    entry_count: int
    owner: str | None = None
    """The label of the API key that owns the glossary; None for callers without a key."""
    collection: str | None = None
    """The id of its collection; None for a glossary outside of collections."""
    revision: int = 0
    """The revision of a part; of a collection's parts for one direction, the highest counts."""

    @property
    def collection_id(self) -> str:
        return self.collection or self.id


Words = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_TERM, pattern=VISIBLE)]


class StoredGlossary(Description, frozen=True, kw_only=True):
    entries: dict[Words, Words]


class PartOf(NamedTuple):
    """The collection of a new glossary, and its revision there."""

    collection: str
    created_at: datetime
    """The time when the collection was made."""
    revision: int = 0


D = TypeVar("D", bound=Description)

_UNREADABLE: Final = (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of reading a file that another program has written or the disk has damaged."""


class GlossaryStore:
    """The glossaries of a directory; without a directory the store is empty and refuses new ones.

    All methods read or write files. Owners see only their own glossaries.
    """

    def __init__(self, directory: Path | None) -> None:
        """Create the directory if needed. Raises `OSError`."""
        self._directory = directory
        self._descriptions: dict[str, Description | None] = {}
        """Descriptions by id, None for a file of another kind. Valid for ever: files never change."""
        self._glossary = lru_cache(_IN_MEMORY)(lambda identifier: Glossary(self._stored(identifier).entries))
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)

    @property
    def can_store(self) -> bool:
        return self._directory is not None

    def writable(self) -> Path:
        """Return the directory. Raises `InvalidRequest` if there is none."""
        if self._directory is None:
            raise InvalidRequest("glossaries", "are not stored here: the server needs --glossaries DIRECTORY")
        return self._directory

    def add(
        self,
        name: str,
        direction: Direction,
        entries: Mapping[str, str],
        owner: str | None,
        part_of: PartOf | None = None,
    ) -> Description:
        """Store a glossary, or a part of a collection.

        Raises `InvalidRequest` if the server stores none or the owner has too many, and `InsufficientStorage`.
        """
        directory = self.writable()
        if len(self.parts(owner)) >= MOST_GLOSSARIES:
            raise InvalidRequest("glossaries", f"you have {MOST_GLOSSARIES} already; that is the limit")
        stored = StoredGlossary(
            id=str(uuid.uuid4()),
            name=name,
            source=direction.source,
            target=direction.target,
            created_at=datetime.now(UTC) if part_of is None else part_of.created_at,
            entry_count=len(entries),
            owner=owner,
            collection=None if part_of is None else part_of.collection,
            revision=0 if part_of is None else part_of.revision,
            entries=dict(entries),
        )
        draft = directory / f"{stored.id}.draft"
        with _writing(stored.id):
            try:
                with open(draft, "xb", opener=_open_private) as file:
                    file.write(msgspec.json.encode(stored))
                    file.flush()
                    os.fsync(file.fileno())
                draft.rename(draft.with_suffix(".json"))
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
        return stored

    def all(self, owner: str | None) -> list[Description]:
        """List the glossaries of an owner, the oldest first, without parts of collections."""
        return [each for each in self.parts(owner) if each.collection is None]

    def parts(self, owner: str | None) -> list[Description]:
        """List the glossaries of an owner and the parts of its collections, the oldest first."""
        names = set() if self._directory is None else {path.stem for path in self._directory.glob("*.json")}
        for gone in self._descriptions.copy().keys() - names:
            self._descriptions.pop(gone, None)
        found = (self._description(name) for name in names)
        own = [each for each in found if each is not None and each.owner == owner]
        return sorted(own, key=lambda each: (each.created_at, each.id))

    def find(self, identifier: str, owner: str | None) -> Description:
        """Find a glossary by its id, or by a unique name. Raises `UnknownGlossary`."""
        return _named(identifier, self.all(owner))[0]

    def entries(self, identifier: str, owner: str | None) -> dict[str, str]:
        """Read the entries of a glossary. Raises `UnknownGlossary` and `DamagedGlossary`."""
        return self._stored(self.find(identifier, owner).id).entries

    def glossary(self, identifiers: Sequence[str], owner: str | None, source: str, target: str) -> Glossary:
        """Load one or more glossaries for these languages as one; the first entry of a term counts.

        Raises `UnknownGlossary`, `DamagedGlossary`, `TooLong`, and `InvalidRequest` if one is for other languages.
        """
        known = [self.for_direction(each, owner, source, target) for each in identifiers]
        if len(known) == 1:
            return self._glossary(known[0].id)
        if (count := sum(each.entry_count for each in known)) > MAX_ENTRIES:
            raise TooLong("glossary_ids", f"{count} entries, the limit is {MAX_ENTRIES}")
        entries: dict[str, str] = {}
        for each in reversed(known):
            entries |= self._stored(each.id).entries
        return Glossary(entries)

    def for_direction(self, identifier: str, owner: str | None, source: str, target: str) -> Description:
        """Find the glossary, or the part of a collection, that translates terms of one language into another.

        The id of a part is accepted, too. Raises `UnknownGlossary`, and `InvalidRequest` if there is none for these
        languages.
        """
        parts = _named(identifier, self.parts(owner))
        fitting = [each for each in parts if (each.source, each.target) == (source, target)]
        if not fitting:
            pairs = " and ".join(sorted({f"{each.source}-{each.target}" for each in parts}))
            # DeepL's words: its clients recognise this error by them.
            raise InvalidRequest(
                "glossary_id", f"No dictionary found for language pair {source}-{target}; it has {pairs}"
            )
        return max(fitting, key=lambda each: each.revision)

    def delete(self, identifier: str, owner: str | None) -> None:
        """Delete a glossary; running translations keep it. Raises `UnknownGlossary` and `InsufficientStorage`."""
        self.remove(self.find(identifier, owner))

    def remove(self, known: Description) -> None:
        """Delete the file of a glossary or of a part of a collection. Raises `InsufficientStorage`."""
        with _writing(known.id):
            self._path(known.id).unlink(missing_ok=True)

    def entries_of(self, known: Description) -> dict[str, str]:
        """Read the entries of a glossary or of a part of a collection. Raises `UnknownGlossary`, `DamagedGlossary`."""
        return self._stored(known.id).entries

    def _stored(self, identifier: str) -> StoredGlossary:
        try:
            stored = self._read(identifier, StoredGlossary)
        except _UNREADABLE as error:
            logger.error("a glossary is damaged", extra={"glossary": identifier, "reason": repr(error)})
            raise DamagedGlossary from None
        if stored is None:
            raise UnknownGlossary("it has just been deleted")
        return stored

    def _description(self, identifier: str) -> Description | None:
        """Return the description; None for a file that is missing or cannot be read."""
        # One lookup: other threads may remove the entry of a deleted file at any time.
        if (known := self._descriptions.get(identifier, UNSET)) is not UNSET:
            return known
        try:
            known = self._read(identifier, Description)
        except OSError as error:  # may be temporary
            logger.warning("a glossary cannot be read", extra={"glossary": identifier, "reason": repr(error)})
            return None
        except _UNREADABLE as error:
            logger.warning("a file is no glossary", extra={"glossary": identifier, "reason": repr(error)})
            known = None
        self._descriptions[identifier] = known
        return known

    def _read(self, identifier: str, kind: type[D]) -> D | None:
        """Read a file; None if there is none. Raises one of `_UNREADABLE`."""
        try:
            found = msgspec.json.decode(self._path(identifier).read_bytes(), type=kind)
        except FileNotFoundError:
            return None
        if found.id != identifier:
            raise msgspec.ValidationError(f"its id is {found.id}")
        return found

    def _path(self, identifier: str) -> Path:
        assert self._directory is not None
        return self._directory / f"{identifier}.json"


def _named(identifier: str, known: Sequence[Description]) -> Sequence[Description]:
    """Return the parts of a collection by its id or one of theirs, or by a unique name. Raises `UnknownGlossary`."""
    found = [each for each in known if identifier in (each.id, each.collection_id)]
    found = found or [each for each in known if each.name == identifier]
    if len({each.collection_id for each in found}) != 1:
        raise UnknownGlossary("several have this name: use an id" if found else "no glossary has this id or name")
    return found


def _open_private(path: str, flags: int) -> int:
    """Open a file that only its owner may read: a glossary can hold names that are not public yet."""
    return os.open(path, flags, _PRIVATE)


@contextmanager
def _writing(identifier: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        logger.error("a glossary cannot be written", extra={"glossary": identifier, "reason": str(error)})
        raise InsufficientStorage("glossaries") from None
