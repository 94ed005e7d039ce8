"""A run: it learns, leaves its files, stops and goes on, alone or as several processes."""

import csv
import gc
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from model.checkpoint import load_model
from model.checkpoint_config import load_config, load_tokenizer
from model.decoding import greedy_decode
from model.training import train as module
from model.training.config import TrainConfig
from model.training.evaluate import evaluate
from model.training.pack import PackError
from model.training.prepare import prepare
from model.training.rows import Batch
from model.training.state import TrainingError
from model.training.train import RunOptions, train
from model.training.trainer import Trainer
from tests.disks import SmallDisk
from tests.model.training.conftest import with_options


def _log(run: Path, column: str) -> list[float]:
    with (run / "log.csv").open() as file:
        return [float(row[column]) for row in csv.DictReader(file) if row[column]]


def test_learns_and_leaves_a_checkpoint_a_log_and_a_curve(experiment: TrainConfig, tmp_path: Path) -> None:
    run = tmp_path / "run"
    experiment = experiment.model_copy(update={"max_sentence_tokens": 12})
    checkpoint = train(experiment, tmp_path, run)
    model, tokenizer, config = load_model(checkpoint), load_tokenizer(checkpoint), load_config(checkpoint)
    outputs = greedy_decode(model, [tokenizer.encode("red house"), tokenizer.encode("the cat")], 20)
    assert [tokenizer.decode(ids) for ids in outputs] == ["HOUSE", "CAT"]
    assert tokenizer.marks_case
    assert (*map(str, config.directions), config.max_sentence_tokens) == ("en-fr", 12)
    losses = _log(run, "validation_loss")
    assert len(losses) == 2
    assert losses[-1] < min(0.1, losses[0])
    assert (run / "curve.png").read_bytes().startswith(b"\x89PNG")
    result = evaluate(checkpoint, tmp_path / "validation.tsv")
    assert str(result.bleu).startswith("BLEU = ")
    assert "version:" in str(result.bleu)
    assert str(result.chrf).startswith("chrF2 = ")


def test_continues_from_a_checkpoint_on_other_data(experiment: TrainConfig, tmp_path: Path) -> None:
    first = train(experiment, tmp_path, tmp_path / "first")
    (tmp_path / "train.tsv").write_text("red cat\tROUGE\nthe dog\tROUGE\n", encoding="utf-8")
    second = with_options(experiment, max_steps=40).model_copy(update={"start_from": first})
    checkpoint = train(second, tmp_path, tmp_path / "second")
    assert load_tokenizer(checkpoint).files == load_tokenizer(first).files
    tokenizer = load_tokenizer(checkpoint)
    [ids] = greedy_decode(load_model(checkpoint), [tokenizer.encode("red cat")], 20)
    assert tokenizer.decode(ids) == "ROUGE"
    other = second.model_copy(update={"model": second.model.model_copy(update={"num_heads": 4})})
    with pytest.raises(TrainingError, match=r"start_from: .* has num_heads 2 where \[model\] says 4"):
        train(other, tmp_path, tmp_path / "third")
    with pytest.raises(TrainingError, match=r"start_from: .*nowhere is not a checkpoint"):
        train(second.model_copy(update={"start_from": tmp_path / "nowhere"}), tmp_path, tmp_path / "fourth")


def _at_step(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[Trainer], object]) -> None:
    """Call `act` right after the step of this number."""

    def stepping(self: Trainer, batches: Sequence[Batch]) -> None:
        train_step(self, batches)
        if self.step == number:
            act(self)

    train_step = Trainer.train_step
    monkeypatch.setattr(Trainer, "train_step", stepping)


def _terminate(trainer: Trainer) -> None:
    signal.raise_signal(signal.SIGTERM)


def test_an_interrupted_run_goes_on_where_it_was(experiment: TrainConfig, tmp_path: Path) -> None:
    """SIGTERM saves; the same call resumes, and the end is that of a run that was never interrupted."""
    config = with_options(experiment, warmup_steps=5, max_steps=20, validate_every=7)
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        _at_step(patch, 12, _terminate)
        train(config, tmp_path, tmp_path / "run")
    assert signal.getsignal(signal.SIGTERM) is handler
    state = torch.load(tmp_path / "run" / "state.pt", weights_only=True)
    assert state["progress"]["step"] == 12
    resumed = load_model(train(config, tmp_path, tmp_path / "run")).state_dict()
    whole = load_model(train(config, tmp_path, tmp_path / "whole")).state_dict()
    for name, tensor in whole.items():
        torch.testing.assert_close(resumed[name], tensor, rtol=0, atol=0)


def _losses(monkeypatch: pytest.MonkeyPatch, *losses: float) -> None:
    remaining = iter(losses)
    monkeypatch.setattr(Trainer, "validation_loss", lambda self: next(remaining))


def test_patience_stops_and_keeps_the_best(
    experiment: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best of these validations is the second, and two worse ones are one too many."""
    config = with_options(experiment, validate_every=5, patience=2)
    _losses(monkeypatch, 3.0, 2.0, 2.5, 2.1)
    kept: dict[int, torch.Tensor] = {}

    def train_step(self: Trainer, batches: Sequence[Batch]) -> None:
        step(self, batches)
        kept[self.step] = self.averaged_model().embedding.weight.detach().clone()

    step = Trainer.train_step
    monkeypatch.setattr(Trainer, "train_step", train_step)
    best = load_model(train(config, tmp_path, tmp_path / "run")).embedding.weight
    assert _log(tmp_path / "run", "validation_loss") == [3.0, 2.0, 2.5, 2.1]
    assert max(kept) == 20
    assert min(kept, key=lambda step: (kept[step] - best).abs().max().item()) == 10


def test_patience_is_remembered_by_a_resumed_run(
    experiment: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _losses(monkeypatch, 2.0, 2.5)
    train(with_options(experiment, validate_every=5, max_steps=10, patience=2), tmp_path, tmp_path / "run")
    _losses(monkeypatch, 2.4)
    for _ in range(2):  # the second call finds a run that is over
        train(with_options(experiment, validate_every=5, max_steps=30, patience=2), tmp_path, tmp_path / "run")
    assert _log(tmp_path / "run", "validation_loss") == [2.0, 2.5, 2.4]


@pytest.mark.parametrize("killed_in", ["_export", "save"])
def test_a_run_that_is_killed_at_its_best_validation_still_keeps_it(
    experiment: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_in: str
) -> None:
    config = with_options(experiment, validate_every=5, patience=1)
    _losses(monkeypatch, 2.0, 1.0)
    place: object = module._Run if killed_in == "_export" else Trainer
    done = getattr(place, killed_in)
    calls: list[object] = []

    def die_the_second_time(*arguments: object) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        done(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(place, killed_in, die_the_second_time)
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path, tmp_path / "run")
    _losses(monkeypatch, 1.0, 3.0)
    killed = load_model(train(config, tmp_path, tmp_path / "run"))
    assert _log(tmp_path / "run", "validation_loss") == [2.0, 1.0, 3.0]
    _losses(monkeypatch, 2.0, 1.0, 3.0)
    whole = load_model(train(config, tmp_path, tmp_path / "whole"))
    torch.testing.assert_close(killed.embedding.weight, whole.embedding.weight, rtol=0, atol=0)


def test_a_prepared_pack_gives_the_same_run_as_its_corpora(experiment: TrainConfig, tmp_path: Path) -> None:
    config = with_options(experiment, warmup_steps=1, max_steps=3)
    prepare(config, tmp_path, tmp_path / "pack")
    from_pack = train(config, tmp_path / "pack", tmp_path / "one")
    from_text = train(config, tmp_path, tmp_path / "two", RunOptions(workers=0))
    assert not (tmp_path / "one" / "pack").exists()
    for name, tensor in load_model(from_pack).state_dict().items():
        torch.testing.assert_close(load_model(from_text).state_dict()[name], tensor, rtol=0, atol=0)


def test_a_pack_that_does_not_fit_starts_nothing(experiment: TrainConfig, tmp_path: Path) -> None:
    prepare(experiment, tmp_path, tmp_path / "pack")
    larger = experiment.model_copy(update={"model": experiment.model.model_copy(update={"vocab_size": 400})})
    with pytest.raises(PackError, match=r"^model\.vocab_size: 400"):
        train(larger, tmp_path / "pack", tmp_path / "run")
    path = tmp_path / "pack" / "train.ids.npy"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(PackError, match=r"train\.ids\.npy is cut off or was changed; delete "):
        train(experiment, tmp_path / "pack", tmp_path / "run")
    assert not list((tmp_path / "run").iterdir())


def test_minutes_end_a_run(experiment: TrainConfig, tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = with_options(experiment, schedule="flat", max_steps=10**9)
    train(config, tmp_path, run, RunOptions(minutes=0.02, workers=0))
    state = torch.load(run / "state.pt", weights_only=True)
    assert 1.2 <= state["progress"]["seconds"] < 20
    assert load_model(run / "checkpoint")
    assert len(_log(run, "validation_loss")) >= 1


@pytest.mark.parametrize("minutes", [None, 0.01])
def test_a_flat_run_decays_on_request_and_is_over_then(
    experiment: TrainConfig, tmp_path: Path, minutes: float | None
) -> None:
    run = tmp_path / "run"
    flat = with_options(experiment, schedule="flat", decay=0.2, warmup_steps=5, max_steps=10**6)
    with pytest.MonkeyPatch.context() as patch:
        _at_step(patch, 40, _terminate)
        train(flat, tmp_path, run, RunOptions(workers=0))
    train(flat, tmp_path, run, RunOptions(workers=0, decay_now=True, minutes=minutes))
    done = torch.load(run / "state.pt", weights_only=True)["progress"]["step"]
    assert done == 50 if minutes is None else done > 40
    assert _log(run, "learning_rate")[-1] < flat.optimiser.learning_rate / 4
    for again in (False, True):  # a requested decay that has begun, or is over, stays the same
        train(flat, tmp_path, run, RunOptions(workers=0, decay_now=again, minutes=1000))
        assert torch.load(run / "state.pt", weights_only=True)["progress"]["step"] == done


def test_only_a_run_that_has_begun_can_decay(experiment: TrainConfig, tmp_path: Path) -> None:
    problem = r"/run/state\.pt is not there: only a run that has begun can decay$"
    with pytest.raises(TrainingError, match=problem):
        train(experiment, tmp_path, tmp_path / "run", RunOptions(decay_now=True))
    assert not (tmp_path / "run").exists()


def test_weights_that_cannot_be_validated_replace_nothing(
    experiment: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last step before a validation ruins them: no loss of training has shown it yet."""

    def ruin(trainer: Trainer) -> None:
        with torch.no_grad():
            trainer.averaged_model().embedding.weight.fill_(torch.inf)

    _at_step(monkeypatch, 10, ruin)
    with pytest.raises(TrainingError, match="validation loss is nan at step 10"):
        train(with_options(experiment, validate_every=5), tmp_path, tmp_path / "run")
    assert torch.load(tmp_path / "run" / "state.pt", weights_only=True)["progress"]["step"] == 5
    assert load_model(tmp_path / "run" / "checkpoint").embedding.weight.isfinite().all()


def test_a_disk_that_fills_up_ends_a_run_with_one_line(
    experiment: TrainConfig, tmp_path: Path, disk: SmallDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever file is the first that finds no room: here the log."""
    small = experiment.model.model_copy(update={"d_model": 8, "ffn_dim": 16})
    config = with_options(experiment, warmup_steps=1, validate_every=5, max_steps=10)
    config = config.model_copy(update={"model": small})
    prepare(config, tmp_path, tmp_path / "pack")
    run = disk.path / "run"

    def fill_up(trainer: Trainer) -> None:
        with (run / "log.csv").open("a") as log:
            log.write(" " * (4096 - (run / "log.csv").stat().st_size % 4096))  # no room in its last block
        disk.fill()

    with pytest.MonkeyPatch.context() as patch:
        _at_step(patch, 10, fill_up)
        with pytest.raises(
            (OSError, TrainingError), match=r"^[^\n]*/run/[a-z.]+ cannot be written: [^\n]*; free some "
        ):
            train(config, tmp_path / "pack", run, RunOptions(workers=0))
    gc.collect()
    assert "the last good state is" in caplog.text
    assert torch.load(run / "state.pt", weights_only=True)["progress"]["step"] == 5
    assert load_model(run / "checkpoint").embedding.weight.isfinite().all()
    disk.make_room()
    train(config, tmp_path / "pack", run, RunOptions(workers=0))
    assert torch.load(run / "state.pt", weights_only=True)["progress"]["step"] == 10
