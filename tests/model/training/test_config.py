"""An experiment's file: a wrong field is named before anything runs."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from model.training import config as module
from model.training.config import OptimiserConfig, TrainConfig

CONFIGS = Path(module.__file__).parent / "configs"


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_the_experiments_of_this_project_are_valid(path: Path) -> None:
    assert TrainConfig.from_toml(path).directions()


@pytest.mark.parametrize(
    ("optimiser", "problem"),
    [
        ("learning_rat = 1.0", r"optimiser\.learning_rat: no such field"),
        ('schedule = "inverse_sqrt"', r"optimiser\.schedule: Input should be 'cosine' or 'flat'"),
        ('algorithm = "sgd"', r"optimiser\.algorithm: Input should be 'adamw' or 'muon'"),
        ("minutes = 0", r"optimiser\.minutes: Input should be greater than 0"),
        ("decay = 1.0", r"optimiser\.decay: Input should be less than 1"),
        (
            "warmup_steps = 100\nmax_steps = 100",
            r"optimiser: warmup_steps \(100\) must be less than max_steps \(100\)",
        ),
        (
            "row_tokens = 128\nbatch_tokens = 255",
            r"optimiser: batch_tokens \(255\) must be at least two rows \(256\)",
        ),
        ("= 1", r"x\.toml: Invalid statement"),
    ],
)
def test_a_wrong_config_names_the_file_and_the_field(tmp_path: Path, optimiser: str, problem: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f'source_language = "en"\n[optimiser]\n{optimiser}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=problem) as error:
        TrainConfig.from_toml(path)
    assert str(error.value).startswith(f"{path}: ")


def test_a_config_that_is_not_there_is_named_first(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    with pytest.raises(ValueError, match=r"^/.*/x\.toml: No such file or directory$"):
        TrainConfig.from_toml(path)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"tokenizer": {"vocab_size": 400}}, "model.vocab_size and tokenizer.vocab_size must be equal"),
        ({"tokenizer": {"vocab_size": 70_000}}, "tokenizer.vocab_size"),
        ({"optimiser": {"row_tokens": 65}}, r"optimiser.row_tokens (65) must be at most model.max_positions (64)"),
        ({"model": {"positions": "relative"}}, "model.positions: relative positions cannot be trained, only imported"),
        ({"model": {"projection_bias": True}}, "model.pad_id, bos_id and eos_id must be 0, 1 and 2, and projection_b"),
        ({"model": {"pad_id": 3}}, "model.pad_id, bos_id and eos_id must be 0, 1 and 2"),
        ({"data": {"augment": {"emoji": 1.5}}}, "data.augment.emoji"),
        (
            {"target_language": "qaa", "data": {"augment": {"dates_and_prices": 0.1}}},
            "data.augment.dates_and_prices: no rules are known for qaa",
        ),
    ],
)
def test_fields_that_contradict_one_another_are_refused(
    experiment: TrainConfig, changes: dict[str, Any], problem: str
) -> None:
    content = experiment.model_dump(mode="json", exclude_none=True)
    for name, change in changes.items():
        content[name] = content[name] | change if isinstance(change, dict) else change
    with pytest.raises(ValidationError) as error:
        TrainConfig.model_validate(content)
    problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.value.errors())
    assert problem in problems


def test_a_batch_is_whole_rows_of_both_sides() -> None:
    assert OptimiserConfig(row_tokens=128, batch_tokens=4096).rows == 16
    assert OptimiserConfig(row_tokens=128, batch_tokens=511).rows == 1
