"""The loop learns, resumes exactly, and refuses to go on without a number for a loss."""

import csv
import math
import signal
from pathlib import Path

import pytest
import torch

from model.checkpoint import load_model
from model.decoding import greedy_decode
from model.manifest import load_tokenizer
from model.training.config import TrainConfig
from model.training.data import prepare
from model.training.evaluate import evaluate
from model.training.train import Batch, Trainer, TrainingError, learning_rate, token_loss, train
from tests.conftest import WORDS

OPTIMISER = {
    "learning_rate": 5e-3,
    "warmup_steps": 20,
    "max_steps": 300,
    "batch_tokens": 512,
    "validate_every": 100,
    "average_decay": 0.9,
    "label_smoothing": 0.0,
    "precision": "float32",
}


@pytest.fixture
def experiment(tmp_path: Path) -> TrainConfig:
    """Learn to say the second word, in capitals."""
    lines = [f"{a} {b}\t{b.upper()}\n" for a in WORDS for b in WORDS]
    (tmp_path / "train.tsv").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "validation.tsv").write_text("".join(lines[::40]), encoding="utf-8")
    return TrainConfig.model_validate(
        {
            "source_language": "en",
            "target_language": "fr",
            "data": {"train": [{"path": "train.tsv"}], "validation": {"path": "validation.tsv"}},
            "tokenizer": {"vocab_size": 320},
            "model": {
                "vocab_size": 320,
                "d_model": 32,
                "ffn_dim": 64,
                "num_heads": 2,
                "encoder_layers": 1,
                "decoder_layers": 1,
                "dropout": 0.0,
                "max_positions": 64,
            },
            "optimiser": OPTIMISER,
        }
    )


def test_learns_and_leaves_a_checkpoint_and_a_log(experiment: TrainConfig, tmp_path: Path) -> None:
    output = tmp_path / "run"
    checkpoint = train(experiment, tmp_path, output)
    model, tokenizer = load_model(checkpoint), load_tokenizer(checkpoint)
    outputs = greedy_decode(model, [tokenizer.encode("red house"), tokenizer.encode("the cat")], 20)
    assert [tokenizer.decode(ids) for ids in outputs] == ["HOUSE", "CAT"]
    with (output / "log.csv").open() as file:
        losses = [float(row["validation_loss"]) for row in csv.DictReader(file) if row["validation_loss"]]
    assert len(losses) == 3
    assert losses[-1] < 0.1 * losses[0]
    bleu, chrf = evaluate(checkpoint, tmp_path / "validation.tsv")
    assert bleu.startswith("BLEU = ")
    assert "version:" in bleu
    assert chrf.startswith("chrF2 = ")


def test_resume_is_exact(experiment: TrainConfig, tmp_path: Path) -> None:
    """Ten steps in a row, and five, a restart, and five more, give the same weights to the last bit."""
    dropout = experiment.model_copy(update={"model": experiment.model.model_copy(update={"dropout": 0.1})})
    _, pairs, _ = prepare(dropout, tmp_path, tmp_path / "cache")

    def run(trainer: Trainer, steps: int) -> Trainer:
        for batch in trainer.batches():
            trainer.train_step(batch)
            steps -= 1
            if not steps:
                return trainer
        raise AssertionError

    cpu = torch.device("cpu")
    whole = run(Trainer(dropout, pairs, cpu), 10)
    run(Trainer(dropout, pairs, cpu), 5).save(tmp_path / "state.pt")
    torch.manual_seed(99)
    resumed = Trainer(dropout, pairs, cpu)
    resumed.resume(tmp_path / "state.pt")
    run(resumed, 5)
    assert resumed.step == whole.step == 10
    for ours, theirs in ((resumed.model, whole.model), (resumed.averaged_model(), whole.averaged_model())):
        for name, tensor in ours.state_dict().items():
            torch.testing.assert_close(tensor, theirs.state_dict()[name], rtol=0, atol=0)


def test_continues_from_a_checkpoint_on_other_data(experiment: TrainConfig, tmp_path: Path) -> None:
    first = train(experiment, tmp_path, tmp_path / "first")
    (tmp_path / "train.tsv").write_text("red cat\tROUGE\n" * 2 + "the dog\tROUGE\n", encoding="utf-8")
    short = experiment.optimiser.model_copy(update={"max_steps": 40})
    second = experiment.model_copy(update={"start_from": first, "optimiser": short})
    checkpoint = train(second, tmp_path, tmp_path / "second")
    assert load_tokenizer(checkpoint).model == load_tokenizer(first).model
    tokenizer = load_tokenizer(checkpoint)
    [ids] = greedy_decode(load_model(checkpoint), [tokenizer.encode("red cat")], 20)
    assert tokenizer.decode(ids) == "ROUGE"
    other = second.model_copy(update={"model": second.model.model_copy(update={"num_heads": 4})})
    with pytest.raises(TrainingError, match=r"start_from: .* has another"):
        train(other, tmp_path, tmp_path / "third")


def test_a_loss_that_is_no_number_stops_before_the_weights_change(experiment: TrainConfig, tmp_path: Path) -> None:
    _, pairs, _ = prepare(experiment, tmp_path, tmp_path / "cache")
    trainer = Trainer(experiment, pairs, torch.device("cpu"))
    with torch.no_grad():
        trainer.model.embedding.weight[:, 0] = math.nan
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    with pytest.raises(TrainingError, match="loss is nan at step 0"):
        trainer.train_step(next(trainer.batches()))
    for name, tensor in trainer.model.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0, equal_nan=True)


def test_learning_rate_schedules(experiment: TrainConfig) -> None:
    cosine = experiment.optimiser
    assert learning_rate(cosine, 0) == pytest.approx(5e-3 / 20)
    assert learning_rate(cosine, 20) == pytest.approx(5e-3)
    assert learning_rate(cosine, 160) == pytest.approx(2.5e-3)
    assert learning_rate(cosine, 300) == pytest.approx(0)
    root = cosine.model_copy(update={"schedule": "inverse_sqrt"})
    assert learning_rate(root, 79) == pytest.approx(2.5e-3)


def test_an_interrupted_run_goes_on_where_it_was(experiment: TrainConfig, tmp_path: Path) -> None:
    """SIGTERM saves; the same call resumes, and the end is that of a run that was never interrupted."""
    short = experiment.optimiser.model_copy(update={"max_steps": 20, "validate_every": 7})
    config = experiment.model_copy(update={"optimiser": short})

    def stop_at_step_12(self: Trainer, batch: Batch) -> float:
        if self.step == 11:
            signal.raise_signal(signal.SIGTERM)
        return train_step(self, batch)

    train_step = Trainer.train_step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "train_step", stop_at_step_12)
        train(config, tmp_path, tmp_path / "run")
    state = torch.load(tmp_path / "run" / "state.pt", weights_only=True)
    assert state["place"]["step"] == 12
    resumed = load_model(train(config, tmp_path, tmp_path / "run")).state_dict()
    whole = load_model(train(config, tmp_path, tmp_path / "whole")).state_dict()
    for name, tensor in whole.items():
        torch.testing.assert_close(resumed[name], tensor, rtol=0, atol=0)


def test_label_smoothing_by_hand() -> None:
    logits, target = torch.randn(1, 2, 5), torch.tensor([[3, 1]])
    logs = logits.log_softmax(-1)[0]
    expected = -(0.9 * (logs[0, 3] + logs[1, 1]) + 0.1 * logs.mean(-1).sum()) / 2
    torch.testing.assert_close(token_loss(logits, target, pad_id=0, label_smoothing=0.1), expected)


def test_a_step_is_smoothed_and_clipped_as_configured(experiment: TrainConfig, tmp_path: Path) -> None:
    _, pairs, _ = prepare(experiment, tmp_path, tmp_path / "cache")

    def first_step(**options: float) -> tuple[float, Trainer]:
        optimiser = experiment.optimiser.model_copy(update=options)
        trainer = Trainer(experiment.model_copy(update={"optimiser": optimiser}), pairs, torch.device("cpu"))
        return trainer.train_step(next(trainer.batches())), trainer

    plain, trainer = first_step(clip_norm=1e-3)
    assert first_step(label_smoothing=0.2)[0] != pytest.approx(plain, abs=1e-4)
    gradients = [parameter.grad for parameter in trainer.model.parameters() if parameter.grad is not None]
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    assert norm.item() == pytest.approx(1e-3, rel=0.01)


def test_loss_ignores_padding() -> None:
    logits = torch.randn(1, 3, 7)
    padded = token_loss(logits, torch.tensor([[4, 5, 0]]), pad_id=0)
    torch.testing.assert_close(padded, token_loss(logits[:, :2], torch.tensor([[4, 5]]), pad_id=0))


def test_a_wrong_config_names_the_field(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('source_language = "en"\n[optimiser]\nlearning_rat = 1.0\n')
    with pytest.raises(ValueError, match=r"optimiser\.learning_rat"):
        TrainConfig.from_toml(path)
