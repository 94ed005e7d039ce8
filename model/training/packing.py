"""Packs several pairs into rows of one fixed length; only the end of a row is padding. Knows no epoch."""

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.training.pack import Pack, PackedPairs, PackError

logger = logging.getLogger(__name__)

_MULTIPLE: Final = 8
"""Row lengths are multiples of it, for the processor's sake."""

IdPair = tuple[NDArray[np.uint16], NDArray[np.uint16]]
"""Source and target ids."""


class RowLengths(NamedTuple):
    """Positions of a row on each side."""

    source: int
    target: int

    @classmethod
    def of(cls, pairs: PackedPairs, longest: int) -> "RowLengths":
        """`longest` for the side with more tokens, and for the other as many as it fills meanwhile."""
        means = pairs.lengths.mean(axis=0)
        rounded = np.ceil(longest * means / means.max() / _MULTIPLE).astype(int) * _MULTIPLE
        return cls(*(min(longest, int(each)) for each in rounded))

    def fit(self, pair: IdPair) -> bool:
        """Return True if both sides of a pair fit a row."""
        return len(pair[0]) <= self.source and len(pair[1]) <= self.target


class PackedRows(NamedTuple):
    """Packed rows, `[rows, 3, row_tokens]` of each side: ids, positions, segments (`Rows`)."""

    source: NDArray[np.int32]
    target: NDArray[np.int32]


def pack_rows(pairs: Sequence[IdPair], lengths: RowLengths) -> PackedRows:
    """Put every pair into the first row with room for both of its sides, the longest pairs first."""
    sizes = np.array([(len(source), len(target)) for source, target in pairs], dtype=np.int64).reshape(-1, 2)
    room = np.tile(np.array(lengths), (len(pairs), 1))
    members: list[list[int]] = []
    for index in np.argsort(-sizes.max(axis=1, initial=0), kind="stable"):
        row = int((room[: len(members) + 1] >= sizes[index]).all(axis=1).argmax())
        if row == len(members):
            members.append([])
        members[row].append(int(index))
        room[row] -= sizes[index]
    return PackedRows(*(_fill([[pairs[i][side] for i in each] for each in members], lengths[side]) for side in (0, 1)))


def _fill(members: list[list[NDArray[np.uint16]]], length: int) -> NDArray[np.int32]:
    packed = np.zeros((len(members), 3, length), dtype=np.int32)
    for row, sentences in enumerate(members):
        start = 0
        for segment, ids in enumerate(sentences, 1):
            end = start + len(ids)
            packed[row, 0, start:end] = ids
            packed[row, 1, start:end] = np.arange(len(ids))
            packed[row, 2, start:end] = segment
            start = end
    return packed


def fill_up(packed: PackedRows, rows: int) -> PackedRows:
    """Add empty rows, so that the last batch of `rows` is whole."""
    missing = -len(packed.source) % rows
    return PackedRows(*(np.concatenate([side, np.zeros((missing, *side.shape[1:]), side.dtype)]) for side in packed))


def check_rows(pack: Pack, row_tokens: int) -> None:
    """Log how many pairs of a pack are longer than a row; raise `PackError` where none is left."""
    lengths = RowLengths.of(pack.train, row_tokens)
    for name, pairs in (("train", pack.train), ("validation", pack.validation)):
        fitting = int((pairs.lengths <= np.array(lengths)).all(axis=1).sum())
        if not fitting:
            raise PackError(f"optimiser.row_tokens: {row_tokens} is too short for every pair of {name} in the pack")
        if fitting < len(pairs):
            logger.info(
                "%s: %d of %d pairs are left out: longer than a row of %d source and %d target positions",
                *(name, len(pairs) - fitting, len(pairs), *lengths),
            )
