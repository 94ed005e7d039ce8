"""A run: it learns, leaves its files, stops and goes on, alone or as several processes."""

import csv
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from model.checkpoint import load_model
from model.checkpoint_config import load_config, load_tokenizer
from model.decoding import greedy_decode
from model.training import train as module
from model.training.config import Corpus, TrainConfig
from model.training.evaluate import evaluate
from model.training.parallel import Group
from model.training.train import train
from model.training.trainer import Batch, Trainer, TrainingError


def _with(experiment: TrainConfig, **options: object) -> TrainConfig:
    return experiment.model_copy(update={"optimiser": experiment.optimiser.model_copy(update=options)})


def _log(run: Path, column: str) -> list[float]:
    with (run / "log.csv").open() as file:
        return [float(row[column]) for row in csv.DictReader(file) if row[column]]


def test_learns_and_leaves_a_checkpoint_a_log_and_a_curve(experiment: TrainConfig, tmp_path: Path) -> None:
    run = tmp_path / "run"
    checkpoint = train(experiment, tmp_path, run, tensorboard=True)
    model, tokenizer = load_model(checkpoint), load_tokenizer(checkpoint)
    outputs = greedy_decode(model, [tokenizer.encode("red house"), tokenizer.encode("the cat")], 20)
    assert [tokenizer.decode(ids) for ids in outputs] == ["HOUSE", "CAT"]
    assert [str(direction) for direction in load_config(checkpoint).directions] == ["en-fr"]
    losses = _log(run, "validation_loss")
    assert len(losses) == 3
    assert losses[-1] < 0.1 * losses[0]
    assert (run / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert any((run / "tensorboard").iterdir())
    result = evaluate(checkpoint, tmp_path / "validation.tsv")
    assert str(result.bleu).startswith("BLEU = ")
    assert "version:" in str(result.bleu)
    assert str(result.chrf).startswith("chrF2 = ")


def test_without_matplotlib_there_is_no_curve_but_a_hint(
    experiment: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    run = tmp_path / "run"
    train(_with(experiment, max_steps=5), tmp_path, run)
    assert not (run / "curve.png").exists()
    assert "no plot without matplotlib: pip install 'dragoman[train]'" in caplog.text


def test_continues_from_a_checkpoint_on_other_data(experiment: TrainConfig, tmp_path: Path) -> None:
    first = train(experiment, tmp_path, tmp_path / "first")
    (tmp_path / "train.tsv").write_text("red cat\tROUGE\nthe dog\tROUGE\n", encoding="utf-8")
    second = _with(experiment, max_steps=40).model_copy(update={"start_from": first})
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


def test_an_interrupted_run_goes_on_where_it_was(experiment: TrainConfig, tmp_path: Path) -> None:
    """SIGTERM saves; the same call resumes, and the end is that of a run that was never interrupted."""
    config = _with(experiment, max_steps=20, validate_every=7)

    def stop_at_step_12(self: Trainer, batches: Sequence[Batch]) -> float:
        if self.step == 11:
            signal.raise_signal(signal.SIGTERM)
        return train_step(self, batches)

    train_step, handler = Trainer.train_step, signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "train_step", stop_at_step_12)
        train(config, tmp_path, tmp_path / "run")
    assert signal.getsignal(signal.SIGTERM) is handler
    state = torch.load(tmp_path / "run" / "state.pt", weights_only=True)
    assert state["place"]["step"] == 12
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
    config = _with(experiment, validate_every=5, patience=2)
    _losses(monkeypatch, 3.0, 2.0, 2.5, 2.1)
    kept: dict[int, torch.Tensor] = {}

    def train_step(self: Trainer, batches: Sequence[Batch]) -> float:
        loss = step(self, batches)
        kept[self.step] = self.averaged_model().embedding.weight.detach().clone()
        return loss

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
    train(_with(experiment, validate_every=5, max_steps=10, patience=2), tmp_path, tmp_path / "run")
    _losses(monkeypatch, 2.4)
    for _ in range(2):  # the second call finds a run that is over
        train(_with(experiment, validate_every=5, max_steps=30, patience=2), tmp_path, tmp_path / "run")
    assert _log(tmp_path / "run", "validation_loss") == [2.0, 2.5, 2.4]


@pytest.mark.parametrize("killed_in", ["_export", "save"])
def test_a_run_that_is_killed_at_its_best_validation_still_keeps_it(
    experiment: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_in: str
) -> None:
    config = _with(experiment, validate_every=5, patience=1)
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


def test_a_resume_of_another_experiment_is_refused(experiment: TrainConfig, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(_with(experiment, max_steps=2), tmp_path, run)
    wider = experiment.model.model_copy(update={"ffn_dim": 128})
    for other in ({"seed": 7}, {"model": wider}):
        with pytest.raises(TrainingError, match=rf"is of another experiment: {next(iter(other))} differ"):
            train(experiment.model_copy(update=other), tmp_path, run)
    train(_with(experiment, max_steps=4, learning_rate=1e-4), tmp_path, run)
    for name in ("train", "validation"):
        corpus = tmp_path / f"{name}.tsv"
        before = corpus.read_text(encoding="utf-8")
        corpus.write_text(before + "a new\tPAIR\n", encoding="utf-8")
        with pytest.raises(TrainingError, match="another experiment: the training or validation text differ"):
            train(_with(experiment, max_steps=6), tmp_path, run)
        corpus.write_text(before, encoding="utf-8")
    train(_with(experiment, max_steps=6), tmp_path, run)
    (run / "state.pt").write_bytes((run / "state.pt").read_bytes()[:1000])
    with pytest.raises(TrainingError, match=r"state\.pt cannot be read"):
        train(experiment, tmp_path, run)


def test_a_failed_run_keeps_its_last_good_state(
    experiment: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail_at_step_8(self: Trainer, batches: Sequence[Batch]) -> float:
        if self.step == 8:
            raise TrainingError("loss is nan")
        return train_step(self, batches)

    train_step = Trainer.train_step
    monkeypatch.setattr(Trainer, "train_step", fail_at_step_8)
    with pytest.raises(TrainingError, match="loss is nan"):
        train(_with(experiment, validate_every=5), tmp_path, tmp_path / "run")
    assert torch.load(tmp_path / "run" / "state.pt", weights_only=True)["place"]["step"] == 5
    assert load_model(tmp_path / "run" / "checkpoint")
    assert "the last good state is" in caplog.text


def test_weights_that_cannot_be_validated_replace_nothing(
    experiment: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last step before a validation ruins them: no loss of training has shown it yet."""

    def ruin_at_step_10(self: Trainer, batches: Sequence[Batch]) -> float:
        loss = train_step(self, batches)
        if self.step == 10:
            with torch.no_grad():
                self.averaged_model().embedding.weight.fill_(torch.inf)
        return loss

    train_step = Trainer.train_step
    monkeypatch.setattr(Trainer, "train_step", ruin_at_step_10)
    with pytest.raises(TrainingError, match="validation loss is nan at step 10"):
        train(_with(experiment, validate_every=5), tmp_path, tmp_path / "run")
    assert torch.load(tmp_path / "run" / "state.pt", weights_only=True)["place"]["step"] == 5
    assert load_model(tmp_path / "run" / "checkpoint").embedding.weight.isfinite().all()


def test_where_the_first_process_finds_no_text_the_others_do_not_look_for_it(
    experiment: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Group, "is_first", False)
    monkeypatch.setattr(Group, "sum", lambda self, *failures: [1.0])
    with pytest.raises(TrainingError, match="the first process failed"):
        train(experiment, tmp_path, tmp_path / "run")
    assert not (tmp_path / "run" / "data").exists()


@pytest.mark.timeout(300)
def test_two_processes_take_the_steps_of_one(experiment: TrainConfig, tmp_path: Path) -> None:
    """Two processes with two batches each a step, as one process with four; and not as one with two."""
    options = {"max_steps": 3, "warmup_steps": 1, "clip_norm": 1e9, "batch_tokens": 128}
    (tmp_path / "two.toml").write_text(_toml(_with(experiment, accumulate=2, **options)), encoding="utf-8")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "service"]
    command = ["train", str(tmp_path / "two.toml"), "--data", str(tmp_path), "--output", str(tmp_path / "two")]
    done = subprocess.run([*torchrun, *command], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("3 steps") == 1, "one process talks"
    for batches in (4, 2):
        train(_with(experiment, accumulate=batches, **options), tmp_path, tmp_path / str(batches))
    weights = {name: _weights(tmp_path / name) for name in ("two", "4", "2")}
    # Where a gradient is all rounding, AdamW takes a whole step in its direction; few weights are like that.
    assert ((weights["two"] - weights["4"]).abs() < 1e-5).float().mean() > 0.99
    assert ((weights["two"] - weights["2"]).abs() < 1e-5).float().mean() < 0.5


def _weights(run: Path) -> torch.Tensor:
    state = torch.load(run / "state.pt", weights_only=True)
    return torch.cat([tensor.flatten() for tensor in state["model"].values()])


def _toml(config: TrainConfig) -> str:
    """Enough of TOML for a config: JSON's values in sections."""
    content = json.loads(config.model_dump_json(exclude_none=True))
    lists = {name: content["data"].pop(name) for name in ("train", "validation")}
    plain = {name: value for name, value in content.items() if not isinstance(value, dict)}
    sections = {name: value for name, value in content.items() if isinstance(value, dict)}
    sections["data.augment"] = sections["data"].pop("augment")

    def lines(table: dict[str, object]) -> str:
        return "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())

    text = lines(plain) + "".join(f"[{name}]\n{lines(table)}" for name, table in sections.items())
    return text + "".join(f"[[data.{name}]]\n{lines(corpus)}" for name in lists for corpus in lists[name])


def test_the_experiments_of_this_project_are_valid() -> None:
    paths = sorted((Path(module.__file__).parent / "configs").glob("*.toml"))
    assert paths
    for path in paths:
        assert TrainConfig.from_toml(path).directions()


@pytest.mark.parametrize(
    ("optimiser", "problem"),
    [
        ("learning_rat = 1.0", r"optimiser\.learning_rat: Extra"),
        (
            "warmup_steps = 100\nmax_steps = 100",
            r"optimiser: warmup_steps \(100\) must be less than max_steps \(100\)",
        ),
    ],
)
def test_a_wrong_config_names_the_field(tmp_path: Path, optimiser: str, problem: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f'source_language = "en"\n[optimiser]\n{optimiser}\n')
    with pytest.raises(ValueError, match=problem):
        TrainConfig.from_toml(path)


def test_corpora_that_are_not_there_are_named_by_their_fields(experiment: TrainConfig, tmp_path: Path) -> None:
    data = experiment.data
    lost = [*data.train, Corpus(path=Path("lost.tsv"))]
    config = experiment.model_copy(update={"data": data.model_copy(update={"train": lost})})
    (tmp_path / "validation.tsv").unlink()
    problems = r"data\.train\.1\.path: no file lost\.tsv in .*; data\.validation\.0\.path: no file validation\.tsv in "
    with pytest.raises(ValueError, match=problems):
        train(config, tmp_path, tmp_path / "run")
