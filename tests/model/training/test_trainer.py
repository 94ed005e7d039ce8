"""The step: what it minimises, how it is divided, and that a resume is exact."""

import math
from itertools import islice
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from model.training.config import AugmentConfig, TrainConfig
from model.training.optimisers import build_optimisers
from model.training.pack import Pack
from model.training.packing import RowLengths
from model.training.prepare import prepare
from model.training.rows import Batch, validation_batches
from model.training.state import TrainingError
from model.training.trainer import Trainer
from model.transformer import Transformer
from tests.model.training.conftest import with_data, with_options


def _trainer(config: TrainConfig, pack: Pack) -> Trainer:
    return Trainer(config, pack, torch.device("cpu"), workers=0)


def _steps(trainer: Trainer, count: int) -> Trainer:
    for step in islice(trainer.batches(), count):
        trainer.train_step(step)
    return trainer


def _with_dropout(experiment: TrainConfig) -> TrainConfig:
    return experiment.model_copy(update={"model": experiment.model.model_copy(update={"dropout": 0.1})})


def _assert_equal_weights(ours: Transformer, theirs: Transformer) -> None:
    for name, tensor in ours.state_dict().items():
        torch.testing.assert_close(tensor, theirs.state_dict()[name], rtol=0, atol=0)


@pytest.mark.parametrize("algorithm", ["adamw", "muon"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_resume_is_exact(experiment: TrainConfig, pack: Pack, tmp_path: Path, algorithm: str, precision: str) -> None:
    """Ten steps in a row, and five, a restart, and five more, give the same weights to the last bit."""
    options = {"accumulate": 2, "algorithm": algorithm, "precision": precision, "subword_sampling": 0.2}
    config = with_options(_with_dropout(experiment), **options)
    whole = _steps(_trainer(config, pack), 10)
    _steps(_trainer(config, pack), 5).save(tmp_path / "state.pt")
    torch.manual_seed(99)
    resumed = _trainer(config, pack)
    resumed.resume(tmp_path / "state.pt")
    _steps(resumed, 5)
    assert (resumed.step, resumed.tokens, resumed.place) == (whole.step, whole.tokens, whole.place)
    assert resumed.step == 10
    _assert_equal_weights(resumed.model, whole.model)
    _assert_equal_weights(resumed.averaged_model(), whole.averaged_model())


def test_a_share_of_the_start_is_shipped(experiment: TrainConfig, pack: Pack) -> None:
    trainer = _trainer(experiment.model_copy(update={"start_share": 0.25}), pack)
    start = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    _steps(trainer, 3)
    trained = trainer.average.module.state_dict()
    for name, shipped in trainer.averaged_model().state_dict().items():
        torch.testing.assert_close(shipped, 0.75 * trained[name] + 0.25 * start[name])
    assert not torch.equal(shipped, start[name])


def test_the_time_of_a_run_goes_on_after_a_resume(experiment: TrainConfig, pack: Pack, tmp_path: Path) -> None:
    first = _trainer(with_options(experiment, minutes=60), pack)
    first._seconds = 3000.0
    _steps(first, 1).save(tmp_path / "state.pt")
    resumed = _trainer(with_options(experiment, minutes=60), pack)
    resumed.resume(tmp_path / "state.pt")
    assert 3000 <= resumed.seconds < 3100
    assert not resumed.is_over()
    resumed._seconds = 3600.0
    assert resumed.is_over()


def test_the_loss_falls_with_muon(experiment: TrainConfig, pack: Pack) -> None:
    """The loss begins at that of a guess among 300 pieces."""
    config = with_options(experiment, algorithm="muon", learning_rate=1e-2, max_steps=60)
    trainer = _steps(_trainer(config, pack), 1)
    assert trainer.report().loss == pytest.approx(math.log(300), abs=1)
    _steps(trainer, 55).report()
    _steps(trainer, 4)
    assert trainer.report().loss < 3
    assert trainer.validation_loss() < 3


def test_matrices_are_muons_and_the_rest_is_adamws(experiment: TrainConfig) -> None:
    model = Transformer(experiment.model)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    adamw, muon = build_optimisers(model, experiment.optimiser.model_copy(update={"algorithm": "muon"}))
    taken = [[names[id(each)] for group in one.param_groups for each in group["params"]] for one in (adamw, muon)]
    assert sorted(taken[0] + taken[1]) == sorted(names.values())
    assert {"embedding.weight", "encoder_norm.weight", "encoder.0.feed_forward.inner.bias"} <= set(taken[0])
    assert {"encoder.0.feed_forward.inner.weight", "decoder.0.cross_attention.query.weight"} <= set(taken[1])
    [alone] = build_optimisers(model, experiment.optimiser)
    assert sum(len(group["params"]) for group in alone.param_groups) == len(names)


def _split(pack: Pack) -> tuple[list[Batch], list[Batch]]:
    """The same rows as one batch, and as two of other sizes."""
    lengths = RowLengths.of(pack.validation, 32)
    [whole] = validation_batches(pack.validation, lengths, rows=8)

    def part(rows: slice) -> Batch:
        sides = [type(side)(*(each[rows].long() for each in side)) for side in whole[:2]]
        source, target = sides
        return Batch(source, target, int((source.segments > 0).sum()), int((target.segments > 0).sum()))

    assert int((whole.source.segments > 0).any(dim=1).sum()) > 1
    return [part(slice(None))], [part(slice(0, 1)), part(slice(1, None))]


def test_accumulated_batches_count_as_one_batch_of_all_their_tokens(experiment: TrainConfig, pack: Pack) -> None:
    one, several = (_trainer(with_options(experiment, clip_norm=1e9), pack) for _ in range(2))
    for trainer, step in zip((one, several), _split(pack), strict=True):
        trainer.train_step(step)
    assert one.report().loss == pytest.approx(several.report().loss, rel=1e-5)
    assert one._norm.item() == pytest.approx(several._norm.item(), rel=1e-4)
    assert one.tokens == several.tokens > 0
    ours, theirs = (torch.nn.utils.parameters_to_vector(trainer.model.parameters()) for trainer in (one, several))
    # Where a gradient is all rounding, AdamW takes a whole step in its direction; few weights are like that.
    assert ((ours - theirs).abs() < 1e-6).float().mean() > 0.97


def test_the_loss_of_a_step_is_the_mean_over_its_target_tokens(experiment: TrainConfig, pack: Pack) -> None:
    trainer = _trainer(with_options(experiment, label_smoothing=0.2), pack)
    [batch], _ = _split(pack)
    with torch.no_grad():
        logits = trainer.model.projection(trainer.model.teach(batch.source, batch.target))
        expected = F.cross_entropy(logits.flatten(0, 1), batch.target.ids.flatten(), ignore_index=0)
    trainer.train_step([batch])
    report = trainer.report()
    assert report.loss == pytest.approx(expected.item(), rel=1e-5)
    assert report.tokens == report.all_tokens == batch.source_tokens + batch.target_tokens


def test_validation_is_the_averages_loss_over_every_pair(experiment: TrainConfig, pack: Pack) -> None:
    trainer = _steps(_trainer(_with_dropout(experiment), pack), 3)
    model = trainer.averaged_model().eval()
    nats, tokens = 0.0, 0
    with torch.inference_mode():
        for source, target in map(pack.validation.pair, range(len(pack.validation))):
            ids = [torch.tensor(side.astype(int))[None] for side in (source, target)]
            nats += F.cross_entropy(model(*ids)[0], ids[1][0], reduction="sum").item()
            tokens += len(target)
    assert trainer.validation_loss() == pytest.approx(nats / tokens, rel=1e-4)
    assert trainer.validation_loss() == trainer.validation_loss()


def test_a_report_is_of_the_steps_since_the_last_one(experiment: TrainConfig, pack: Pack) -> None:
    trainer = _trainer(with_options(experiment, warmup_steps=5), pack)
    _steps(trainer, 5)
    first = trainer.report()
    _steps(trainer, 2)
    second = trainer.report()
    assert (first.step, second.step) == (5, 7)
    assert first.tokens + second.tokens == second.all_tokens == trainer.tokens
    assert second.loss < first.loss
    assert first.learning_rate == pytest.approx(experiment.optimiser.learning_rate, rel=0.01)


def test_the_average_of_a_short_run_is_not_its_random_beginning(experiment: TrainConfig, pack: Pack) -> None:
    trainer = _trainer(with_options(experiment, average_decay=0.999, warmup_steps=1, learning_rate=1e-2), pack)
    beginning = trainer.model.embedding.weight.detach().clone()
    average = _steps(trainer, 60).averaged_model().embedding.weight
    gone = (trainer.model.embedding.weight - beginning).norm()
    assert (average - beginning).norm() > 0.6 * gone
    assert (average - trainer.model.embedding.weight).norm() < 0.6 * gone


def test_a_loss_that_is_no_number_is_reported_before_anything_can_be_saved(experiment: TrainConfig, pack: Pack) -> None:
    trainer = _trainer(experiment, pack)
    with torch.no_grad():
        trainer.model.embedding.weight[:, 0] = math.nan
    _steps(trainer, 1)
    with pytest.raises(TrainingError, match=r"loss is nan .* at step 1; run it again with a lower learning_rate"):
        trainer.report()
    with pytest.raises(TrainingError, match=r"validation loss is nan at step 1; run it again with a lower"):
        trainer.validation_loss()


def test_a_gradient_that_is_no_number_is_reported_too(experiment: TrainConfig, pack: Pack) -> None:
    trainer = _trainer(experiment, pack)
    trainer.model.embedding.weight.register_hook(lambda gradient: gradient * math.inf)  # type: ignore[no-untyped-call]
    _steps(trainer, 1)
    with pytest.raises(TrainingError, match=r"gradient norm (nan|inf) at step 1"):
        trainer.report()


def test_a_step_is_clipped_as_configured(experiment: TrainConfig, pack: Pack) -> None:
    """Gradients shrunk to almost nothing move AdamW by its epsilon's share alone."""

    def moved(clip_norm: float) -> float:
        trainer = _trainer(with_options(experiment, clip_norm=clip_norm, warmup_steps=1), pack)
        before = trainer.model.embedding.weight.detach().clone()
        return float((_steps(trainer, 1).model.embedding.weight - before).detach().norm())

    assert moved(1e-9) < 0.2 * moved(1.0)


def test_smoothing_changes_the_step_and_not_the_loss(experiment: TrainConfig, pack: Pack) -> None:
    plain, smoothed = (_steps(_trainer(with_options(experiment, label_smoothing=s), pack), 1) for s in (0.0, 0.2))
    assert plain.report().loss == pytest.approx(smoothed.report().loss, rel=1e-6)
    assert plain._norm.item() != pytest.approx(smoothed._norm.item(), rel=1e-3)


def test_layers_compute_in_bfloat16_and_weights_stay_in_float32(experiment: TrainConfig, pack: Pack) -> None:
    """Updates too small for bfloat16's eight bits add up in the masters, and reach the copy when they are enough."""
    config = with_options(experiment, precision="bfloat16", learning_rate=1e-5, warmup_steps=1)
    trainer = _trainer(config, pack)
    masters = dict(trainer.model.named_parameters())
    copies = dict(trainer._working._copy.named_parameters())
    name = "encoder.0.feed_forward.inner.weight"
    assert {each.dtype for each in masters.values()} == {torch.float32}
    assert copies[name].dtype == torch.bfloat16
    assert copies["embedding.weight"] is masters["embedding.weight"]
    before = masters[name].detach().clone()
    _steps(trainer, 3)
    assert (masters[name] != before).float().mean() > 0.9
    assert (masters[name] != masters[name].to(torch.bfloat16).float()).float().mean() > 0.9
    assert copies[name].equal(masters[name].to(torch.bfloat16))
    assert copies[name].grad is None


def test_bfloat16_takes_nearly_the_steps_of_float32(experiment: TrainConfig, pack: Pack) -> None:
    losses = []
    for precision in ("float32", "bfloat16"):
        trainer = _steps(_trainer(with_options(experiment, precision=precision), pack), 20)
        losses.append((trainer.report().loss, trainer.validation_loss()))
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


def test_a_run_that_is_over_cannot_decay(experiment: TrainConfig, pack: Pack) -> None:
    trainer = _steps(_trainer(with_options(experiment, warmup_steps=1, max_steps=2), pack), 2)
    with pytest.raises(TrainingError, match=r"^the run is over at step 2: its learning rate is 0 and cannot decay$"):
        trainer.decay_now(minutes=1)
    assert trainer.is_over()


@pytest.mark.parametrize(
    "changed",
    [
        "model",
        "optimiser.algorithm",
        "the pack",
        "seed",
        "data.augment",
        "optimiser.row_tokens",
        "optimiser.batch_tokens",
        "optimiser.subword_sampling",
    ],
)
def test_a_state_of_another_experiment_is_refused(
    experiment: TrainConfig, pack: Pack, tmp_path: Path, changed: str
) -> None:
    path = tmp_path / "state.pt"
    _steps(_trainer(experiment, pack), 1).save(path)
    others = {
        "model": experiment.model_copy(update={"model": experiment.model.model_copy(update={"ffn_dim": 128})}),
        "optimiser.algorithm": with_options(experiment, algorithm="muon"),
        "seed": experiment.model_copy(update={"seed": 7}),
        "data.augment": with_data(experiment, augment=AugmentConfig(emoji=0.5)),
        "optimiser.row_tokens": with_options(experiment, row_tokens=48),
        "optimiser.batch_tokens": with_options(experiment, batch_tokens=256),
        "optimiser.subword_sampling": with_options(experiment, subword_sampling=0.5),
    }
    other, other_pack = others.get(changed, experiment), pack
    if changed == "the pack":
        (tmp_path / "train.tsv").write_text("a\tA\n" + (tmp_path / "train.tsv").read_text(encoding="utf-8"))
        other_pack = prepare(experiment, tmp_path, tmp_path / "longer")
    problem = rf"state\.pt is of another experiment: {changed} differ; use another output$"
    with pytest.raises(TrainingError, match=problem):
        _trainer(other, other_pack).resume(path)


def test_a_resumed_run_may_have_another_schedule(experiment: TrainConfig, pack: Pack, tmp_path: Path) -> None:
    _steps(_trainer(experiment, pack), 1).save(tmp_path / "state.pt")
    schedule = {"learning_rate": 1e-4, "schedule": "flat", "max_steps": 999, "accumulate": 2}
    _trainer(with_options(experiment, **schedule), pack).resume(tmp_path / "state.pt")


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_a_broken_state_is_named(experiment: TrainConfig, pack: Pack, tmp_path: Path, content: bytes | None) -> None:
    state = tmp_path / "state.pt"
    _steps(_trainer(experiment, pack), 1).save(state)
    state.write_bytes(state.read_bytes()[:-1000] if content is None else content)
    with pytest.raises(TrainingError, match=r"/state\.pt cannot be read: .*; delete it to begin anew$"):
        _trainer(experiment, pack).resume(state)
