"""Packed rows lose no pair and keep both limits; pairs longer than a row are counted."""

import logging
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from model.training.config import TrainConfig
from model.training.pack import Pack, PackedPairs, PackError
from model.training.packing import IdPair, RowLengths, check_rows, pack_rows
from model.training.train import train
from tests.model.training.conftest import with_options

LENGTHS = RowLengths(24, 32)
_SIZES = st.lists(st.tuples(st.integers(1, LENGTHS.source), st.integers(1, LENGTHS.target)), max_size=40)


def _id_pairs(sizes: list[tuple[int, int]]) -> list[IdPair]:
    """Every pair of other ids than every other."""
    return [
        (np.full(source, 2 * i + 10, dtype=np.uint16), np.full(target, 2 * i + 11, dtype=np.uint16))
        for i, (source, target) in enumerate(sizes)
    ]


def sentences(side: NDArray[np.int32]) -> dict[tuple[int, int], tuple[list[int], list[int], list[int]]]:
    """Collect ids, positions, and their place in the row, by row and segment."""
    found: dict[tuple[int, int], tuple[list[int], list[int], list[int]]] = {}
    for row, (ids, positions, segments) in enumerate(side):
        for place in np.flatnonzero(segments):
            lists = found.setdefault((row, int(segments[place])), ([], [], []))
            for values, value in zip(lists, (ids[place], positions[place], place), strict=True):
                values.append(int(value))
    return found


@given(sizes=_SIZES)
def test_every_pair_is_in_one_segment_of_one_row_on_both_sides(sizes: list[tuple[int, int]]) -> None:
    pairs = _id_pairs(sizes)
    packed = pack_rows(pairs, LENGTHS)
    assert [side.shape[1:] for side in packed] == [(3, LENGTHS.source), (3, LENGTHS.target)]
    source, target = map(sentences, packed)
    assert source.keys() == target.keys()
    assert len(source) == len(pairs)
    found = sorted((source[place][0], target[place][0]) for place in source)
    assert found == sorted((ids.tolist(), translation.tolist()) for ids, translation in pairs)
    for _, positions, places in (*source.values(), *target.values()):
        assert positions == list(range(len(positions)))
        assert places == list(range(places[0], places[0] + len(places))), "a sentence stands in one piece"
    for side in packed:
        assert not side[:, :2][np.broadcast_to(side[:, 2:] == 0, side[:, :2].shape)].any(), "nothing is in what is left"


def _packed_pairs(pairs: list[IdPair]) -> PackedPairs:
    ids = np.concatenate([side for pair in pairs for side in pair])
    lengths = np.array([[len(side) for side in pair] for pair in pairs], dtype=np.uint16)
    offsets = np.concatenate([[0], lengths.reshape(-1).cumsum(dtype=np.int64)])
    return PackedPairs(ids, lengths, offsets)


@pytest.mark.parametrize(
    ("sizes", "lengths"),
    [
        ([(10, 20), (10, 20)], (64, 128)),
        ([(20, 10)], (128, 64)),
        ([(10, 10)], (128, 128)),
        ([(10, 11)], (120, 128)),  # 116.4 positions, in eights
        ([(30, 31)], (128, 128)),
    ],
)
def test_the_longer_side_has_the_whole_row_and_the_other_its_share(
    sizes: list[tuple[int, int]], lengths: tuple[int, int]
) -> None:
    assert RowLengths.of(_packed_pairs(_id_pairs(sizes)), 128) == lengths


def test_pairs_longer_than_a_row_are_counted(pack: Pack, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "model.training.packing")
    check_rows(pack, 64)
    assert not caplog.messages
    lengths = RowLengths.of(pack.train, 6)
    kept = sum(lengths.fit(pack.train.pair(index)) for index in range(len(pack.train)))
    assert 0 < kept < len(pack.train)
    check_rows(pack, 6)
    assert caplog.messages[0] == (
        f"train: {len(pack.train) - kept} of {len(pack.train)} pairs are left out: "
        f"longer than a row of {lengths.source} source and {lengths.target} target positions"
    )


@pytest.mark.usefixtures("pack")
def test_rows_too_short_for_every_pair_start_nothing(experiment: TrainConfig, tmp_path: Path) -> None:
    config = with_options(experiment, row_tokens=1)
    with pytest.raises(PackError, match=r"^optimiser\.row_tokens: 1 is too short for every pair of train in the pack$"):
        train(config, tmp_path / "pack", tmp_path / "run")
    assert not list((tmp_path / "run").iterdir())
