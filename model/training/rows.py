"""Batches of packed rows (model/training/packing.py), without end.

An epoch is drawn in chunks of pairs. A chunk is a function of the pack, the config, its epoch and its number alone, so
that a resumed run sees the same batches, and worker processes make chunks while the model computes.
"""

import itertools
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from model.subwords import seed_sampling
from model.training.augment import Augmenter
from model.training.config import TrainConfig
from model.training.corpora import Pair
from model.training.pack import Pack, PackedPairs
from model.training.packing import IdPair, RowLengths, fill_up, pack_rows
from model.transformer import Rows

PAIRS_A_CHUNK: Final = 8192
_SAMPLING_ALPHA: Final = 0.2
"""Smoothness of the distribution that pieces are sampled from."""


class Batch(NamedTuple):
    """Packed pairs; pair k of row r is segment k of row r on both sides."""

    source: Rows
    target: Rows
    source_tokens: int
    target_tokens: int

    def to(self, device: torch.device) -> "Batch":
        """Copy the batch to a device, its numbers as int64; from pinned memory the copy does not wait."""
        sides = [
            Rows(*(each.to(device, non_blocking=True).long() for each in side)) for side in (self.source, self.target)
        ]
        return Batch(sides[0], sides[1], self.source_tokens, self.target_tokens)


@dataclass
class Place:
    """The place of a run in its data: the next batch."""

    epoch: int = 0
    chunk: int = 0
    batch: int = 0


class _Chunk(NamedTuple):
    """Batches of a chunk, `[batches, 3, rows, row_tokens]` of each side."""

    epoch: int
    number: int
    source: Tensor
    target: Tensor


class _Chunks(IterableDataset[_Chunk]):
    """All chunks from a place on, without end; several workers take turns."""

    def __init__(self, pack: Pack, config: TrainConfig, place: Place, *, sampled: bool) -> None:
        self._reader = PairReader(pack, config, sampled=sampled)
        self._config = config
        self._first = place

    def __iter__(self) -> Iterator[_Chunk]:
        worker = get_worker_info()
        mine, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        epoch, number = self._first.epoch, self._first.chunk
        order = self._reader.order(epoch)
        for turn in itertools.count():
            while number * PAIRS_A_CHUNK >= len(order):
                epoch, number = epoch + 1, 0
                order = self._reader.order(epoch)
            if turn % workers == mine:
                yield self._chunk(order[number * PAIRS_A_CHUNK : (number + 1) * PAIRS_A_CHUNK], epoch, number)
            number += 1

    def _chunk(self, indices: NDArray[np.int64], epoch: int, number: int) -> _Chunk:
        random = np.random.default_rng([self._config.seed, epoch, number])
        packed = pack_rows(self._reader.read(indices, random), self._reader.row_lengths)
        rows = self._config.optimiser.rows
        if number == 0 and len(packed.source) < rows:
            packed = fill_up(packed, rows)  # a small corpus would never make a batch
        order = random.permutation(len(packed.source))
        return _Chunk(epoch, number, *(_as_batches(side[order], rows) for side in packed))


class PairReader:
    """Pairs of a pack as a run sees them: repeated, changed, and with pieces sampled anew."""

    def __init__(self, pack: Pack, config: TrainConfig, *, sampled: bool) -> None:
        self._pairs = pack.train
        self._tokenizer = pack.tokenizer
        self._seed = config.seed
        self.row_lengths = RowLengths.of(pack.train, config.optimiser.row_tokens)
        self._sampling = config.optimiser.subword_sampling if sampled else 0.0
        parts = pack.info.train
        self._augmenters = [Augmenter(config.data.augment, part.direction, pack.names) for part in parts]
        self._languages = [(part.direction.target, part.direction.source) for part in parts]
        self._part_of = np.repeat(np.arange(len(parts)), [part.pairs for part in parts])
        self._repeats = np.array([part.repeat for part in parts], dtype=np.float32)[self._part_of]

    def order(self, epoch: int) -> NDArray[np.int64]:
        """Return the pairs of an epoch by their numbers.

        A repeat of 1.5 is once, and in half of the epochs, drawn for each pair, once more.
        """
        random = np.random.default_rng([self._seed, epoch])
        times = np.floor(self._repeats + random.random(len(self._pairs), dtype=np.float32)).astype(np.int64)
        return random.permutation(np.repeat(np.arange(len(times)), times))

    def read(self, indices: NDArray[np.int64], random: np.random.Generator) -> list[IdPair]:
        """Source and target ids of each pair that fits a row."""
        if self._sampling:
            seed_sampling(int(random.integers(2**31)))
        pairs = (self._read(int(index), random) for index in indices)
        return [pair for pair in pairs if self.row_lengths.fit(pair)]

    def _read(self, index: int, random: np.random.Generator) -> IdPair:
        part = self._part_of[index]
        kinds = self._augmenters[part].draw(random)
        alpha = _SAMPLING_ALPHA if self._sampling and random.random() < self._sampling else None
        ids = self._pairs.pair(index)
        if not kinds and alpha is None:
            return ids
        pair = Pair(*(self._tokenizer.decode(side.tolist()) for side in ids))
        changed = self._augmenters[part].change(pair, kinds, random)
        if changed is None and alpha is None:
            return ids
        source, target = changed or pair
        into, out_of = self._languages[part]
        return (
            np.array(self._tokenizer.encode(source, into, out_of, alpha), dtype=np.uint16),
            np.array(self._tokenizer.encode_targets([target], into, out_of, alpha)[0], dtype=np.uint16),
        )


def _as_batches(packed: NDArray[np.int32], rows: int) -> Tensor:
    """`[batches, 3, rows, length]`; the few rows that do not make a batch are left out."""
    count = len(packed) // rows
    whole = packed[: count * rows].reshape(count, rows, *packed.shape[1:])
    return torch.from_numpy(np.ascontiguousarray(whole.transpose(0, 2, 1, 3)))


def batches(
    pack: Pack, config: TrainConfig, place: Place, *, sampled: bool, workers: int = 1, pin: bool = False
) -> Iterator[tuple[Batch, Place]]:
    """Endless batches from `place` on, each with the place of the one after it."""
    loader = DataLoader(
        _Chunks(pack, config, place, sampled=sampled),
        batch_size=None,
        num_workers=workers,
        prefetch_factor=2 if workers else None,
        pin_memory=pin,
        multiprocessing_context="fork" if workers else None,
        worker_init_fn=_leave_signals_to_the_run,
        # It draws a number when it starts: from the default generator, dropout after a resume would differ.
        generator=torch.Generator(),
    )
    first = place.batch
    for chunk in loader:
        for number in range(first, len(chunk.source)):
            batch = _batch(chunk.source[number], chunk.target[number])
            yield batch, Place(chunk.epoch, chunk.number, number + 1)
        first = 0


def _leave_signals_to_the_run(worker: int) -> None:
    """Ignore Ctrl-C and SIGTERM, which reach whole process groups: the run saves its state first, then ends workers."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def validation_batches(pairs: PackedPairs, lengths: RowLengths, rows: int) -> list[Batch]:
    """Return the same batches every time; the last one is filled up with empty rows."""
    fitting = [pair for pair in map(pairs.pair, range(len(pairs))) if lengths.fit(pair)]
    packed = fill_up(pack_rows(fitting, lengths), rows)
    return [_batch(*both) for both in zip(*(_as_batches(side, rows) for side in packed), strict=True)]


def _batch(source: Tensor, target: Tensor) -> Batch:
    sides = [Rows(*side) for side in (source, target)]
    tokens = [int((side.segments > 0).sum()) for side in sides]
    return Batch(sides[0], sides[1], tokens[0], tokens[1])
