"""Batches hold every pair of an epoch, and are a function of pack, config and place."""

import signal
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from model.training import rows as module
from model.training.config import AugmentConfig, TrainConfig
from model.training.pack import Pack
from model.training.packing import RowLengths
from model.training.prepare import prepare
from model.training.rows import Batch, PairReader, Place, batches, validation_batches
from tests.model.training.conftest import with_data, with_options
from tests.model.training.test_packing import sentences

SMALL_CHUNK = 60


def _stream(
    pack: Pack, config: TrainConfig, place: Place | None = None, *, sampled: bool = False, workers: int = 0
) -> Iterator[tuple[Batch, Place]]:
    return batches(pack, config, place or Place(), sampled=sampled, workers=workers)


def _epoch(pack: Pack, config: TrainConfig, epoch: int = 0, *, sampled: bool = False) -> list[Batch]:
    found: list[Batch] = []
    for batch, place in _stream(pack, config, Place(epoch), sampled=sampled):
        if place.epoch != epoch:
            return found
        found.append(batch)
    raise AssertionError("batches end")


def _pairs_of(found: list[Batch]) -> Counter[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Count each pair of ids in some batches."""
    counts: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
    for batch in found:
        sides = [sentences(torch.stack(list(side), dim=1).numpy()) for side in (batch.source, batch.target)]
        counts.update((tuple(sides[0][place][0]), tuple(sides[1][place][0])) for place in sides[0])
    return counts


def _expected(pack: Pack) -> Counter[tuple[tuple[int, ...], tuple[int, ...]]]:
    pairs = map(pack.train.pair, range(len(pack.train)))
    return Counter((tuple(source.tolist()), tuple(target.tolist())) for source, target in pairs)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAIRS_A_CHUNK", SMALL_CHUNK)


@pytest.mark.usefixtures("small_chunks")
def test_an_epoch_has_every_pair_once(experiment: TrainConfig, pack: Pack) -> None:
    """A batch is one row here; larger ones leave out what does not make a batch."""
    config = with_options(experiment, batch_tokens=64)
    assert config.optimiser.rows == 1
    for epoch in range(2):
        assert _pairs_of(_epoch(pack, config, epoch)) == _expected(pack)


@pytest.mark.usefixtures("small_chunks")
def test_what_does_not_make_a_batch_is_less_than_a_batch_a_chunk(experiment: TrainConfig, pack: Pack) -> None:
    config = with_options(experiment, batch_tokens=256)
    found = _epoch(pack, config)
    rows = config.optimiser.rows
    assert all(batch.source.ids.shape[0] == batch.target.ids.shape[0] == rows for batch in found)
    seen, expected = _pairs_of(found), _expected(pack)
    assert not seen - expected
    chunks = -(-len(pack.train) // SMALL_CHUNK)
    left_out = sum(len(source) for source, _ in (expected - seen).elements())
    assert left_out < chunks * rows * found[0].source.ids.shape[1]


def test_tokens_of_a_batch_are_those_that_fill_no_gap(experiment: TrainConfig, pack: Pack) -> None:
    for batch in _epoch(pack, experiment):
        assert batch.source_tokens == int((batch.source.ids != 0).sum())
        assert batch.target_tokens == int((batch.target.ids != 0).sum())


def test_rows_of_every_batch_have_one_shape(experiment: TrainConfig, pack: Pack) -> None:
    shapes = {(batch.source.ids.shape, batch.target.ids.shape) for batch in _epoch(pack, experiment)}
    assert len(shapes) == 1
    assert max(max(shape) for shape in next(iter(shapes))) <= experiment.optimiser.row_tokens


@pytest.mark.parametrize(("repeat", "counts"), [(2.0, {2}), (1.5, {1, 2}), (0.25, {0, 1})])
def test_a_repeat_is_how_often_an_epoch_has_a_pair(
    experiment: TrainConfig, tmp_path: Path, repeat: float, counts: set[int]
) -> None:
    corpora = [corpus.model_copy(update={"repeat": repeat}) for corpus in experiment.data.train]
    config = with_data(experiment, train=corpora)
    reader = PairReader(prepare(config, tmp_path, tmp_path / "repeated"), config, sampled=False)
    pairs = len(reader.order(0)) / repeat
    seen = [np.bincount(reader.order(epoch), minlength=515) for epoch in range(2)]
    for times in seen:
        assert set(times.tolist()) == counts
        assert times.sum() == pytest.approx(515 * repeat, rel=0.15)
    assert pairs == pytest.approx(515, rel=0.15)
    if len(counts) > 1:
        assert (seen[0] != seen[1]).any(), "drawn anew each epoch"


def test_a_corpus_too_small_for_a_batch_is_filled_up_with_empty_rows(experiment: TrainConfig, pack: Pack) -> None:
    config = with_options(experiment, batch_tokens=64_000)
    [batch] = _epoch(pack, config)
    assert len(batch.source.ids) == 1000
    assert _pairs_of([batch]) == _expected(pack)


def _equal(ours: Batch, theirs: Batch) -> bool:
    return ours[2:] == theirs[2:] and all(
        one.equal(other)
        for side, other_side in zip(ours[:2], theirs[:2], strict=True)
        for one, other in zip(side, other_side, strict=True)
    )


def _changing(experiment: TrainConfig) -> TrainConfig:
    """Everything that is drawn: pieces and changed pairs."""
    augment = AugmentConfig(lowercase=0.3, uppercase=0.3, emoji=0.2, copied_words=0.5)
    return with_data(with_options(experiment, batch_tokens=128, subword_sampling=0.5), augment=augment)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_run_goes_on_from_any_place_with_the_same_batches(experiment: TrainConfig, pack: Pack, workers: int) -> None:
    """The order is the same over the end of a chunk and of an epoch, whichever process packs."""
    config = _changing(experiment)
    whole = list(islice(_stream(pack, config, sampled=True), 60))
    assert {place.epoch for _, place in whole} == {0, 1}
    assert max(place.chunk for _, place in whole) > 3
    starts = range(0, 50, 7) if workers == 0 else (5, 40)
    for start in starts:
        rest = list(islice(_stream(pack, config, whole[start][1], sampled=True, workers=workers), 9))
        assert [place for _, place in rest] == [place for _, place in whole[start + 1 : start + 10]]
        for (ours, _), (theirs, _) in zip(rest, whole[start + 1 : start + 10], strict=True):
            assert _equal(ours, theirs)


def test_loading_draws_no_number_that_dropout_would_draw(experiment: TrainConfig, pack: Pack) -> None:
    before = torch.get_rng_state()
    next(_stream(pack, experiment))
    assert torch.get_rng_state().equal(before)


def test_batches_are_a_function_of_the_seed_and_differ_from_epoch_to_epoch(experiment: TrainConfig, pack: Pack) -> None:
    config = with_options(experiment, batch_tokens=64_000)
    [first], [again], [second] = (_epoch(pack, config, epoch) for epoch in (0, 0, 1))
    [other] = _epoch(pack, config.model_copy(update={"seed": 5}))
    assert _equal(first, again)
    assert not _equal(first, second)
    assert not _equal(first, other)


def test_pairs_are_changed_anew_in_each_epoch(experiment: TrainConfig, pack: Pack) -> None:
    augment = AugmentConfig(numbers=0.0, emoji=0.3)
    config = with_data(with_options(experiment, batch_tokens=64_000), augment=augment)
    first, second = (_pairs_of(_epoch(pack, config, epoch)) for epoch in (0, 1))
    changed = [pairs - _expected(pack) for pairs in (first, second)]
    for each in changed:
        assert 0.2 < each.total() / len(pack.train) < 0.4
        (source, target), _ = next(iter(each.items()))
        assert pack.tokenizer.decode(source)[-1] == pack.tokenizer.decode(target)[-1], "the emoji"
    assert changed[0] != changed[1]


def test_pieces_are_sampled_for_their_share_where_the_run_samples(experiment: TrainConfig, pack: Pack) -> None:
    """Other pieces of the same text."""
    config = with_options(experiment, batch_tokens=64_000, subword_sampling=0.5)
    plain, sampled = (_pairs_of(_epoch(pack, config, sampled=sampled)) for sampled in (False, True))
    assert plain == _expected(pack)
    other = sampled - plain
    assert 0.1 < other.total() / len(pack.train) <= 0.6

    def texts(pairs: Counter[tuple[tuple[int, ...], tuple[int, ...]]]) -> Counter[tuple[str, ...]]:
        return Counter(tuple(pack.tokenizer.decode(side) for side in pair) for pair in pairs.elements())

    assert texts(sampled) == texts(plain)


def test_validation_batches_have_every_pair_once_and_are_filled_up(experiment: TrainConfig, pack: Pack) -> None:
    lengths = RowLengths.of(pack.train, 32)
    first, again = (validation_batches(pack.train, lengths, rows=5) for _ in range(2))
    assert _pairs_of(first) == _expected(pack)
    assert all(_equal(ours, theirs) for ours, theirs in zip(first, again, strict=True))
    assert {len(batch.source.ids) for batch in first} == {5}
    assert not first[-1].source.segments[-1].any()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_whole_process_group_leaves_the_packing_to_the_run(
    experiment: TrainConfig, pack: Pack, number: signal.Signals
) -> None:
    before = psutil.Process().children()  # tests before this one may have left helpers of torch
    found = _stream(pack, experiment, workers=1)
    next(found)
    [worker] = [each for each in psutil.Process().children() if each not in before]
    worker.send_signal(number)
    assert len(list(islice(found, 40))) == 40
    assert worker.is_running()
