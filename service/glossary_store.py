"""Glossaries that are kept: a file for each, in a directory that several servers may share.

A file is written whole and never changed, so nobody reads half of one and whoever has read it may keep what it says.
"""

import logging
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import UNSET

from model.checkpoint_config import Direction
from service.errors import DamagedGlossary, InsufficientStorage, InvalidRequest, UnknownGlossary
from service.text.glossary import LONGEST_TERM, VISIBLE, Glossary

logger = logging.getLogger(__name__)

MOST_GLOSSARIES: Final = 1000
"""Of each owner."""
_IN_MEMORY: Final = 32
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A glossary without its entries."""

    id: str
    name: str
    source: str
    target: str
    created_at: Annotated[datetime, msgspec.Meta(tz=True)]
    entry_count: int
    owner: str | None = None
    """The label of the API key that it belongs to; None is who has none."""


Words = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_TERM, pattern=VISIBLE)]


class Kept(Description, frozen=True, kw_only=True):
    entries: dict[Words, Words]


D = TypeVar("D", bound=Description)

_UNREADABLE: Final = (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What reading a file that somebody else has written, or that the disk has damaged, may end with."""


class GlossaryStore:
    """The glossaries of a directory; without one there are none, and none can be added.

    All of it reads or writes files. Everybody has glossaries of their own: those of others are as if there were none.
    """

    def __init__(self, directory: Path | None) -> None:
        """Raises `OSError` where the directory cannot be made."""
        self._directory = directory
        self._descriptions: dict[str, Description | None] = {}
        """By their ids, or None for a file that is no glossary: no file ever changes."""
        self._glossary = lru_cache(_IN_MEMORY)(lambda identifier: Glossary(self._kept(identifier).entries))
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)

    @property
    def can_keep(self) -> bool:
        return self._directory is not None

    def writable(self) -> Path:
        """The directory; raises `InvalidRequest` where there is none."""
        if self._directory is None:
            raise InvalidRequest("glossaries", "are not kept here: the server needs --glossaries DIRECTORY")
        return self._directory

    def add(self, name: str, direction: Direction, entries: Mapping[str, str], owner: str | None) -> Description:
        """Raises `InvalidRequest` where none are kept, or too many, and `InsufficientStorage`."""
        directory = self.writable()
        if len(self.all(owner)) >= MOST_GLOSSARIES:
            raise InvalidRequest("glossaries", f"you have {MOST_GLOSSARIES} already, which is the limit")
        kept = Kept(
            id=str(uuid.uuid4()),
            name=name,
            source=direction.source,
            target=direction.target,
            created_at=datetime.now(UTC),
            entry_count=len(entries),
            owner=owner,
            entries=dict(entries),
        )
        draft = directory / f"{kept.id}.draft"
        with _writing(kept.id):
            try:
                with draft.open("xb") as file:
                    file.write(msgspec.json.encode(kept))
                    file.flush()
                    os.fsync(file.fileno())
                draft.rename(draft.with_suffix(".json"))
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
        return kept

    def all(self, owner: str | None) -> list[Description]:
        """The oldest first."""
        names = set() if self._directory is None else {path.stem for path in self._directory.glob("*.json")}
        for gone in self._descriptions.copy().keys() - names:
            self._descriptions.pop(gone, None)
        found = (self._description(name) for name in names)
        own = [each for each in found if each is not None and each.owner == owner]
        return sorted(own, key=lambda each: (each.created_at, each.id))

    def find(self, identifier: str, owner: str | None) -> Description:
        """By its id, or by its name if no other has it. Raises `UnknownGlossary`."""
        if self._directory is not None and _ID.fullmatch(identifier):
            known = self._description(identifier) if self._path(identifier).exists() else None
            if known is not None and known.owner == owner:
                return known
        named = [each for each in self.all(owner) if each.name == identifier]
        if len(named) != 1:
            raise UnknownGlossary("several have this name: use an id" if named else "there is none of this id or name")
        return named[0]

    def entries(self, identifier: str, owner: str | None) -> dict[str, str]:
        """As `find`; also raises `DamagedGlossary`."""
        return self._kept(self.find(identifier, owner).id).entries

    def glossary(self, identifier: str, owner: str | None, source: str, target: str) -> Glossary:
        """As `entries`; also raises `InvalidRequest` where it is for other languages."""
        known = self.find(identifier, owner)
        if (known.source, known.target) != (source, target):
            problem = f"is from {known.source} into {known.target}, not from {source} into {target}"
            raise InvalidRequest("glossary_id", problem)
        return self._glossary(known.id)

    def delete(self, identifier: str, owner: str | None) -> None:
        """What is being translated with it goes on. Raises `UnknownGlossary` and `InsufficientStorage`."""
        known = self.find(identifier, owner)
        with _writing(known.id):
            self._path(known.id).unlink(missing_ok=True)

    def _kept(self, identifier: str) -> Kept:
        try:
            kept = self._read(identifier, Kept)
        except _UNREADABLE as error:
            logger.error("a glossary is damaged", extra={"glossary": identifier, "reason": repr(error)})
            raise DamagedGlossary from None
        if kept is None:
            raise UnknownGlossary("it has just been deleted")
        return kept

    def _description(self, identifier: str) -> Description | None:
        """None for what is not there, and for a file that cannot be read."""
        # Other threads forget what was deleted: nothing is asked for twice.
        if (known := self._descriptions.get(identifier, UNSET)) is not UNSET:
            return known
        try:
            known = self._read(identifier, Description)
        except OSError as error:  # which may pass
            logger.warning("a glossary cannot be read", extra={"glossary": identifier, "reason": repr(error)})
            return None
        except _UNREADABLE as error:
            logger.warning("a file is no glossary", extra={"glossary": identifier, "reason": repr(error)})
            known = None
        self._descriptions[identifier] = known
        return known

    def _read(self, identifier: str, kind: type[D]) -> D | None:
        """None where there is no file; raises one of `_UNREADABLE`."""
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


@contextmanager
def _writing(identifier: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        logger.error("a glossary cannot be written", extra={"glossary": identifier, "reason": str(error)})
        raise InsufficientStorage from None
