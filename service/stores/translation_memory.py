"""Translation memories: sentences whose translation is known, and is returned as it stands.

Tags and placeholders of a sentence take the place of those of its unit. Files are read again when they change; a
lookup sees the old content or the new one, never a part. Lookups may come from any thread.
"""

import asyncio
import logging
import os
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from operator import add
from pathlib import Path
from typing import Final, NamedTuple

from rapidfuzz import fuzz, process

from service.errors import InvalidRequest
from service.text.language_codes import without_country
from service.text.placeholders import TAG, find_verbatim
from service.text.segment import Match, Segment, with_single_spaces

logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 5.0
"""Interval between two looks at the files; a change is read when two agree."""
LEAST_SCORE: Final = 80
"""Per cent of equal characters of a near match."""
MOST_MATCHES: Final = 3
_AT_ONCE: Final = 1_000
"""Texts that are compared before other threads have their turn: about a millisecond."""
_SLOT: Final = "\ue000"
"""Stands for a placeholder: a sentence with another one is found, too."""

Unit = Mapping[str, str]
Read = Callable[[Path], Iterable[Unit]]


class _Cut(NamedTuple):
    """A text cut at its tags: one piece more than there are tags."""

    pieces: Sequence[str]
    tags: Sequence[str]

    @property
    def words(self) -> str:
        return "".join(self.pieces)


def _cut(text: str) -> _Cut:
    if "<" not in text:
        return _Cut([text], [])
    tags = [*TAG.finditer(text)]
    starts = [0, *(tag.end() for tag in tags)]
    ends = [*(tag.start() for tag in tags), len(text)]
    return _Cut([text[start:end] for start, end in zip(starts, ends, strict=True)], [tag[0] for tag in tags])


def _cut_segment(segment: Segment) -> _Cut:
    if segment.encoding == "plain":
        return _cut(segment.source_sentence)
    places = [(place, tag) for place, tag in segment.tags() if tag]
    bounds = [0, *(place for place, _ in places), len(segment.sentence)]
    pieces = [segment.sentence[start:end] for start, end in pairwise(bounds)]
    return _Cut(pieces, [tag for _, tag in places])


def _parts(words: str) -> tuple[list[str], list[str]]:
    """Split a text at its placeholders; return what is between them, and the placeholders."""
    between, placeholders, done = [], [], 0
    for start, end in find_verbatim(words):
        between.append(words[done:start])
        placeholders.append(words[start:end])
        done = end
    return [*between, words[done:]], placeholders


def _key(words: str) -> str:
    return with_single_spaces(_SLOT.join(_parts(words)[0]))


class Memory:
    """The units of some files; never changes. The later of two units for one text counts."""

    def __init__(self, units: Iterable[Unit] = ()) -> None:
        self._by_language: dict[str, dict[str, Unit]] = {}
        self.size = 0
        for unit in units:
            self.size += 1
            for language, text in unit.items():
                key = _key(_cut(text).words).strip()
                known = self._by_language.setdefault(language, {})
                older = known.get(key)
                known[text if key == text else key] = (
                    unit if older is None or older.keys() <= unit.keys() else {**older, **unit}
                )

    def translation(self, segment: Segment, source: str, target: str) -> str | None:
        """Return the translation of a sentence, as the text around it is encoded; None if no unit fits."""
        cut = _cut_segment(segment)
        unit = self._by_language.get(source, {}).get(_key(cut.words).strip())
        if unit is None or target not in unit:
            return None
        return _adjusted(segment._replace(capitals=False), cut, _cut(unit[source]), _cut(unit[target]))

    def matches(self, segment: Segment, source: str, target: str) -> list[Match]:
        """Return the units most like a sentence, the best first. Takes milliseconds in a large memory."""
        keys, lengths = self._by_length.get(source, ((), ()))
        words = _key(_cut_segment(segment).words).strip()
        # The score counts characters of both texts: none of another length can reach it.
        first = bisect_left(lengths, len(words) * LEAST_SCORE / (200 - LEAST_SCORE))
        last = bisect_left(lengths, len(words) * (200 - LEAST_SCORE) / LEAST_SCORE + 1)
        found: list[tuple[str, float, int]] = []
        for start in range(first, last, _AT_ONCE):
            some = keys[start : min(start + _AT_ONCE, last)]
            found += process.extract(words, some, scorer=fuzz.ratio, score_cutoff=LEAST_SCORE, limit=MOST_MATCHES)
        best = sorted(found, key=lambda each: -each[1])[:MOST_MATCHES]
        units = [(self._by_language[source][key], score) for key, score, _ in best]
        return [Match(unit[source], unit[target], round(score, 1)) for unit, score in units if target in unit]

    @cached_property
    def _by_length(self) -> Mapping[str, tuple[Sequence[str], Sequence[int]]]:
        ordered = {language: sorted(known, key=len) for language, known in self._by_language.items()}
        return {language: (keys, [*map(len, keys)]) for language, keys in ordered.items()}


def _adjusted(segment: Segment, asked: _Cut, source: _Cut, target: _Cut) -> str | None:
    """Write the target with the tags and placeholders that were asked for; None if it is not clear where they go."""
    words = [number for number, piece in enumerate(asked.pieces) if piece.strip()]
    if [*map(_key, asked.pieces)] == [*map(_key, source.pieces)] and sorted(source.tags) == sorted(target.tags):
        places: defaultdict[str, deque[str]] = defaultdict(deque)
        for own, tag in zip(source.tags, asked.tags, strict=True):
            places[own].append(tag)
        pieces, tags = target.pieces, [places[own].popleft() for own in target.tags]
    elif len(words) == 1:  # no tag, or all of them around the whole sentence
        pieces, tags = [""] * len(asked.pieces), [*asked.tags]
        pieces[words[0]] = with_single_spaces(target.words)
    else:
        return None
    wanted, known = _parts(asked.words)[1], _parts(source.words)[1]
    if wanted != known:
        renamed = dict(zip(known, wanted, strict=True))
        if [renamed[each] for each in known] != wanted or sorted(_parts(target.words)[1]) != sorted(known):
            return None
        pieces = [_renamed(piece, renamed) for piece in pieces]
    first, *rest = map(segment.render, pieces)
    return first + "".join(map(add, tags, rest))


def _renamed(words: str, renamed: Mapping[str, str]) -> str:
    (first, *rest), placeholders = _parts(words)
    return first + "".join(renamed.get(own, own) + after for own, after in zip(placeholders, rest, strict=True))


_State = tuple[int, int, int]


def _state(path: Path) -> _State:
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns


class _Watched:
    """The memory of some files, which may change."""

    def __init__(self, paths: Sequence[Path], read: Read) -> None:
        self._paths = paths
        self._read = read
        self._seen: list[_State] = []
        self._loaded: list[_State] = []
        self.memory = Memory()

    def load(self) -> None:
        """Read all files. Raises `InvalidRequest` and `OSError`."""
        before = [*map(_state, self._paths)]
        self.memory = Memory(unit for path in self._paths for unit in self._read(path))
        self._loaded = before
        logger.info("translation memory read", extra={"units": self.memory.size, "files": [*map(str, self._paths)]})

    def reload(self) -> None:
        """Read the files again if they have changed and are written; keep what was read of a broken one."""
        try:
            seen, before = [*map(_state, self._paths)], self._seen
            self._seen = seen
            if seen == before != self._loaded:
                self._loaded = seen  # a broken file is not read again until it changes
                self.load()
        except (InvalidRequest, OSError) as error:
            logger.error("a translation memory cannot be read; the last one stays", extra={"reason": str(error)})


class TranslationMemory:
    """The memories of a server: one that all callers use, and one of each key that has one, which comes first."""

    def __init__(self, files: Mapping[str, Sequence[Path]], read: Read) -> None:
        """`files` are those of each owner: the label of a key, or "" for all callers. `load` reads them."""
        self._watched = {owner: _Watched(paths, read) for owner, paths in files.items()}

    def load(self) -> None:
        """Read all files. Raises `InvalidRequest` and `OSError`."""
        for each in self._watched.values():
            each.load()

    def reload(self) -> None:
        """Read files again that have changed since two calls ago; keep what was read of a broken one."""
        for each in self._watched.values():
            each.reload()

    async def follow(self) -> None:
        """Read files again that change, until cancelled."""
        while self._watched:
            await asyncio.sleep(POLL_SECONDS)
            await asyncio.to_thread(self.reload)

    def has(self, caller: str) -> bool:
        """True if there is a memory for a caller."""
        return next(self._memories(caller), None) is not None

    def translation(self, caller: str, source: str, target: str, segment: Segment) -> str | None:
        """Return the known translation of a sentence; None if there is none."""
        codes = without_country(source), without_country(target)
        found = (memory.translation(segment, *codes) for memory in self._memories(caller))
        return next(filter(None, found), None)

    def matches(self, caller: str, source: str, target: str, segment: Segment) -> list[Match]:
        """Return the units most like a sentence, those of the caller's own memory first."""
        codes = without_country(source), without_country(target)
        return [each for memory in self._memories(caller) for each in memory.matches(segment, *codes)][:MOST_MATCHES]

    def _memories(self, caller: str) -> Iterator[Memory]:
        for owner in (caller.removeprefix("key:"), "") if caller.startswith("key:") else ("",):
            if owner in self._watched:
                yield self._watched[owner].memory
