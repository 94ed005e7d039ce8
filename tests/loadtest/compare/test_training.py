"""The comparison of trainers: equal work on both sides, on a model of a toy's size. Nothing here is timed."""

import io
import json
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from rich.console import Console

from loadtest.compare.roster import OURS
from loadtest.compare.training.meter import Trained, real_tokens
from loadtest.compare.training.ours import train_ours
from loadtest.compare.training.report import Comparison, Run, UnequalWork, as_json, as_table, check
from loadtest.compare.training.work import (
    MODES,
    SIDES,
    THEIRS,
    WARM_UP,
    Job,
    Mode,
    pairs_a_batch,
    pairs_of_file,
    shared_batches,
    synthetic_pairs,
    turns,
)
from loadtest.compare.workload import SHAPES
from model.config import ModelConfig
from model.training.data import epoch_batches

TOY = ModelConfig(
    vocab_size=300, d_model=16, ffn_dim=32, num_heads=2, encoder_layers=1, decoder_layers=1, max_positions=64
)
BATCH = (torch.tensor([[5, 6, 2], [7, 2, 0]]), torch.tensor([[8, 2, 0, 0], [9, 10, 11, 2]]))
COMPARISON = Comparison("small", 2, 2, 1, 4096, "float32", "synthetic")


@pytest.fixture
def theirs() -> ModuleType:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from loadtest.compare.training import theirs

    return theirs


def _job(mode: Mode) -> Job:
    return Job(TOY, synthetic_pairs(400, TOY), mode, batch_tokens=512, steps=2)


def _trained(side: str = OURS, seconds: float = 1.0) -> Trained:
    parameters = 1000 + (4 * TOY.d_model if side == OURS else 0)
    return Trained(parameters, [60, 40], [80, 45], seconds, 2 * seconds, [9.0, 8.5, 8.0], dropout=True)


RUNS = [
    Run(mode, side, number, _trained(side, seconds=number * (1.0 if side == OURS else 2.0)))
    for number, mode, side in turns(2)
]


def test_padding_is_not_counted() -> None:
    assert real_tokens(BATCH, TOY.pad_id) == 5 + 6


def test_marian_inputs_are_the_same_batch(theirs: ModuleType) -> None:
    inputs = theirs.as_marian_inputs(BATCH, TOY)

    assert inputs["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert inputs["labels"].tolist() == [[8, 2, -100, -100], [9, 10, 11, 2]]
    assert inputs["decoder_input_ids"].tolist() == [[1, 8, 2, 0], [1, 9, 10, 11]]
    assert all(torch.equal(ours, back) for ours, back in zip(BATCH, theirs.as_batch(inputs, TOY), strict=True))


def test_marian_inputs_are_what_the_collator_makes(theirs: ModuleType) -> None:
    job = _job("epoch")
    rows = np.arange(7)
    model = torch.nn.Module()
    collated = theirs.collator(model, TOY)([theirs.dataset(job)[row] for row in rows])

    batch = job.pairs.batch(rows, TOY.pad_id)
    expected = theirs.as_marian_inputs(batch, TOY)
    # Of a model without a say in it, the collator does not make decoder inputs.
    del expected["decoder_input_ids"]
    assert collated.keys() == expected.keys()
    assert all(torch.equal(collated[name], ids) for name, ids in expected.items())


def test_synthetic_pairs_are_the_same_everywhere() -> None:
    ours, again = synthetic_pairs(5, SHAPES["small"], seed=1), synthetic_pairs(5, SHAPES["small"], seed=1)

    assert np.array_equal(ours.ids, again.ids)
    assert not np.array_equal(ours.lengths(), synthetic_pairs(5, SHAPES["small"], seed=2).lengths())


def test_synthetic_pairs_are_realistic() -> None:
    config = SHAPES["small"]
    pairs = synthetic_pairs(20_000, config)
    lengths = pairs.lengths()
    words = np.delete(pairs.ids, pairs.offsets[1:] - 1)

    assert lengths.mean() == pytest.approx(20, abs=0.5)
    assert statistics.correlation(*lengths.T.tolist()) > 0.9
    assert lengths.max() <= config.max_positions
    assert (pairs.ids[pairs.offsets[1:] - 1] == config.eos_id).all()
    assert max(config.pad_id, config.bos_id, config.eos_id) < words.min() <= words.max() < config.vocab_size


def test_pairs_of_a_file(tmp_path: Path) -> None:
    words = [f"{first}{second}" for first in "bcdfgklmnprstv" for second in "aeiou"]
    random = np.random.default_rng(0)
    lines = (" ".join(random.choice(words, 6)) + "\t" + " ".join(random.choice(words, 7)) for _ in range(100))
    file = tmp_path / "pairs.tsv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")

    pairs = pairs_of_file(file, 40, TOY.model_copy(update={"vocab_size": 330}))

    assert len(pairs) == 40
    assert len(pairs_of_file(file, 1000, TOY.model_copy(update={"vocab_size": 330}))) == 99  # one is validated on
    assert (pairs.ids[pairs.offsets[1:] - 1] == TOY.eos_id).all()


def test_a_fixed_batch_has_as_many_tokens_on_average() -> None:
    job = Job(TOY, synthetic_pairs(20_000, TOY), "epoch", batch_tokens=2048, steps=2)
    a_pair = job.pairs.lengths().sum() / len(job.pairs)
    ours = job.pairs.lengths().sum() / len(epoch_batches(job.pairs, job.batch_tokens, job.seed, 0))

    assert pairs_a_batch(job) * a_pair == pytest.approx(ours, rel=0.02)


@pytest.mark.parametrize("mode", MODES)
def test_ours_trains(mode: Mode) -> None:
    _check_training(train_ours, _job(mode))


@pytest.mark.parametrize("mode", MODES)
def test_theirs_trains(theirs: ModuleType, mode: Mode) -> None:
    _check_training(theirs.train_theirs, _job(mode))


def _check_training(train: Callable[[Job], Trained], job: Job) -> None:
    trained = train(job)

    assert len(trained.tokens) == job.steps
    assert len(trained.losses) == WARM_UP + job.steps
    assert np.isfinite(trained.losses).all()
    assert trained.dropout
    if job.mode == "steps":
        assert trained.tokens == [real_tokens(batch, TOY.pad_id) for batch in shared_batches(job)[WARM_UP:]]


def test_both_sides_have_the_same_parameters_but_for_the_last_norms(theirs: ModuleType) -> None:
    job = _job("steps")

    assert train_ours(job).parameters - theirs.train_theirs(job).parameters == 2 * 2 * TOY.d_model


def test_theirs_batches_alike_lengths(theirs: ModuleType) -> None:
    job = replace(_job("epoch"), steps=8)
    trained = theirs.train_theirs(job)
    in_any_order = [job.pairs.batch(rows, TOY.pad_id) for rows in np.array_split(np.arange(len(job.pairs)), 20)]

    padded = sum(ids.numel() for batch in in_any_order for ids in batch)
    fill = sum(real_tokens(batch, TOY.pad_id) for batch in in_any_order) / padded
    assert sum(trained.tokens) / sum(trained.padded_tokens) > fill + 0.1


def test_without_dropout_it_is_noticed(theirs: ModuleType) -> None:
    job = replace(_job("steps"), model=TOY.model_copy(update={"dropout": 0.0}))

    assert [train(job).dropout for train in (train_ours, theirs.train_theirs)] == [False, False]


def test_sides_take_turns_at_being_first() -> None:
    assert list(turns(2))[::2] == [(1, "steps", OURS), (1, "epoch", OURS), (2, "steps", THEIRS), (2, "epoch", THEIRS)]
    assert len(set(turns(2))) == 2 * len(MODES) * len(SIDES)


def test_equal_work_passes() -> None:
    check(RUNS, TOY)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"dropout": False}, "no dropout"),
        ({"losses": [8.0, 8.0]}, r"the loss went from 8\.000 to 8\.000"),
        ({"losses": [8.0, float("nan")]}, r"to nan"),
        ({"parameters": 999}, "parameters"),
        ({"tokens": [61, 40]}, "other batches"),
        ({"padded_tokens": [81, 45]}, "other batches"),
    ],
)
def test_unequal_work_is_refused(change: dict[str, object], problem: str) -> None:
    runs = [
        replace(run, trained=replace(run.trained, **change)) if run.side == THEIRS else run  # type: ignore[arg-type]
        for run in RUNS
    ]
    with pytest.raises(UnequalWork, match=problem):
        check(runs, TOY)


def test_json() -> None:
    report = json.loads(json.dumps(as_json(COMPARISON, RUNS)))

    # Rounds: 100 tokens in 1 s and 2 s, theirs in 2 s and 4 s.
    assert report["ratio"] == report["cpu_ratio"] == {"steps": 2.0, "epoch": 2.0}
    assert report["ratio_range"] == {"steps": [2.0, 2.0], "epoch": [2.0, 2.0]}
    assert report["tokens_per_second"]["epoch"][THEIRS] == {"median": 37.5, "lowest": 25.0, "highest": 50.0}
    assert (report["shape"], report["precision"], report["data"]) == ("small", "float32", "synthetic")
    assert [(raw["round"], raw["mode"], raw["side"]) for raw in report["raw"]] == list(turns(2))
    assert report["raw"][0]["tokens_per_second"] == 100.0


def test_table_fits_a_terminal() -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(as_table(COMPARISON, RUNS))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()

    row = next(line for line in lines if THEIRS in line and "epoch" in line)
    assert "38 (25-50)" in row
    assert "2.00 (2.00-2.00)" in row
    assert "20%" in row
