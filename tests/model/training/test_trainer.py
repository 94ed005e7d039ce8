"""The step: what it minimises, how it is divided, and that a resume is exact."""

import math
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
import torch

from model.training.config import TrainConfig
from model.training.data import PackedPairs, prepare
from model.training.parallel import Group
from model.training.trainer import Trainer, TrainingError, learning_rate, token_loss, uses_bfloat16
from model.transformer import Transformer


@pytest.fixture
def pairs(experiment: TrainConfig, tmp_path: Path) -> PackedPairs:
    return prepare(experiment, tmp_path, tmp_path / "cache").train


def _with(experiment: TrainConfig, **options: object) -> TrainConfig:
    return experiment.model_copy(update={"optimiser": experiment.optimiser.model_copy(update=options)})


def _trainer(config: TrainConfig, pairs: PackedPairs) -> Trainer:
    return Trainer(config, pairs, pairs, Group("cpu"))


def _steps(trainer: Trainer, count: int) -> Trainer:
    for batches in islice(trainer.batches(), count):
        trainer.train_step(batches)
    return trainer


def _assert_equal_weights(ours: Transformer, theirs: Transformer) -> None:
    for name, tensor in ours.state_dict().items():
        torch.testing.assert_close(tensor, theirs.state_dict()[name], rtol=0, atol=0)


def test_resume_is_exact(experiment: TrainConfig, pairs: PackedPairs, tmp_path: Path) -> None:
    """Ten steps in a row, and five, a restart, and five more, give the same weights to the last bit."""
    model = experiment.model.model_copy(update={"dropout": 0.1})
    config = _with(experiment.model_copy(update={"model": model}), accumulate=2)
    whole = _steps(_trainer(config, pairs), 10)
    _steps(_trainer(config, pairs), 5).save(tmp_path / "state.pt")
    torch.manual_seed(99)
    resumed = _trainer(config, pairs)
    resumed.resume(tmp_path / "state.pt")
    _steps(resumed, 5)
    assert resumed.step == whole.step == 10
    _assert_equal_weights(resumed.model, whole.model)
    _assert_equal_weights(resumed.averaged_model(), whole.averaged_model())


def test_accumulated_batches_count_as_one_batch_of_all_their_tokens(
    experiment: TrainConfig, pairs: PackedPairs
) -> None:
    pad = experiment.model.pad_id
    small, large = pairs.batch(torch.arange(3).numpy(), pad), pairs.batch(torch.arange(3, 40).numpy(), pad)
    everything = pairs.batch(torch.arange(40).numpy(), pad)
    one, several = (_trainer(_with(experiment, clip_norm=1e9), pairs) for _ in range(2))
    losses = [one.train_step([everything]), several.train_step([small, large])]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for ours, theirs in zip(one.model.parameters(), several.model.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)


def test_the_average_of_a_short_run_is_not_its_random_beginning(experiment: TrainConfig, pairs: PackedPairs) -> None:
    trainer = _trainer(_with(experiment, average_decay=0.999, warmup_steps=1, learning_rate=1e-2), pairs)
    beginning = trainer.model.embedding.weight.detach().clone()
    average = _steps(trainer, 60).averaged_model().embedding.weight
    gone = (trainer.model.embedding.weight - beginning).norm()
    assert (average - beginning).norm() > 0.6 * gone
    assert (average - trainer.model.embedding.weight).norm() < 0.6 * gone


def test_an_epoch_too_small_for_a_step_is_refused(experiment: TrainConfig, pairs: PackedPairs) -> None:
    with pytest.raises(TrainingError, match=r"an epoch has \d+ batches, a step needs 1000"):
        next(_trainer(_with(experiment, accumulate=1000), pairs).batches())


def test_a_loss_that_is_no_number_stops_before_the_weights_change(experiment: TrainConfig, pairs: PackedPairs) -> None:
    trainer = _trainer(experiment, pairs)
    with torch.no_grad():
        trainer.model.embedding.weight[:, 0] = math.nan
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    with pytest.raises(TrainingError, match=r"loss is nan .* at step 0"):
        trainer.train_step(next(trainer.batches()))
    for name, tensor in trainer.model.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0, equal_nan=True)


def test_a_gradient_that_is_no_number_stops_too(experiment: TrainConfig, pairs: PackedPairs) -> None:
    trainer = _trainer(experiment, pairs)
    trainer.model.embedding.weight.register_hook(lambda gradient: gradient * math.inf)  # type: ignore[no-untyped-call]
    with pytest.raises(TrainingError, match=r"gradient norm (nan|inf) at step 0"):
        trainer.train_step(next(trainer.batches()))
    assert all(parameter.isfinite().all() for parameter in trainer.model.parameters())


def test_learning_rate_schedules(experiment: TrainConfig) -> None:
    cosine = experiment.optimiser
    assert learning_rate(cosine, 0) == pytest.approx(5e-3 / 20)
    assert learning_rate(cosine, 20) == pytest.approx(5e-3)
    assert learning_rate(cosine, 160) == pytest.approx(2.5e-3)
    assert learning_rate(cosine, 300) == pytest.approx(0)
    root = cosine.model_copy(update={"schedule": "inverse_sqrt"})
    assert learning_rate(root, 79) == pytest.approx(2.5e-3)


def test_label_smoothing_by_hand() -> None:
    logits, target = torch.randn(1, 2, 5), torch.tensor([[3, 1]])
    logs = logits.log_softmax(-1)[0]
    expected = -(0.9 * (logs[0, 3] + logs[1, 1]) + 0.1 * logs.mean(-1).sum())
    torch.testing.assert_close(token_loss(logits, target, pad_id=0, label_smoothing=0.1), expected)


def test_loss_ignores_padding() -> None:
    logits = torch.randn(1, 3, 7)
    padded = token_loss(logits, torch.tensor([[4, 5, 0]]), pad_id=0)
    torch.testing.assert_close(padded, token_loss(logits[:, :2], torch.tensor([[4, 5]]), pad_id=0))


def test_a_step_is_smoothed_and_clipped_as_configured(experiment: TrainConfig, pairs: PackedPairs) -> None:
    def first_step(**options: float) -> tuple[float, Trainer]:
        trainer = _trainer(_with(experiment, **options), pairs)
        return trainer.train_step(next(trainer.batches())), trainer

    plain, trainer = first_step(clip_norm=1e-3)
    assert first_step(label_smoothing=0.2)[0] != pytest.approx(plain, abs=1e-4)
    gradients = [parameter.grad for parameter in trainer.model.parameters() if parameter.grad is not None]
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    assert norm.item() == pytest.approx(1e-3, rel=0.01)


def test_bfloat16_only_where_the_processor_has_it(experiment: TrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    automatic = experiment.optimiser.model_copy(update={"precision": "auto"})
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    for supported in (True, False):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda supported=supported: supported)
        assert uses_bfloat16(automatic, "cpu") is supported
    assert not uses_bfloat16(experiment.optimiser, "cpu")
    assert uses_bfloat16(experiment.optimiser.model_copy(update={"precision": "bfloat16"}), "cpu")


def test_steps_go_through_what_the_compiler_returns(
    experiment: TrainConfig, pairs: PackedPairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler itself takes a minute on a CPU; what is ours is that it is asked and that its result runs."""

    def compile_call(call: Callable[..., torch.Tensor], *, dynamic: bool) -> Callable[..., torch.Tensor]:
        assert dynamic
        return lambda *inputs: call(*inputs) * 0

    monkeypatch.setattr(torch, "compile", compile_call)
    trainer = _trainer(_with(experiment, compile=True), pairs)
    assert trainer.train_step(next(trainer.batches())) == pytest.approx(math.log(320))
    assert all(not name.startswith("_orig") for name in trainer.model.state_dict())
