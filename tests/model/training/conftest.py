"""A small experiment that learns something in seconds."""

from pathlib import Path

import pytest

from model.training.config import TrainConfig
from model.training.pack import Pack
from model.training.prepare import prepare
from tests.conftest import WORDS

OPTIMISER = {
    "learning_rate": 5e-3,
    "warmup_steps": 20,
    "max_steps": 200,
    "row_tokens": 32,
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
            "data": {"train": [{"path": "train.tsv"}], "validation": [{"path": "validation.tsv"}]},
            "tokenizer": {"vocab_size": 300},
            "model": {
                "vocab_size": 300,
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


@pytest.fixture
def pack(experiment: TrainConfig, tmp_path: Path) -> Pack:
    return prepare(experiment, tmp_path, tmp_path / "pack")


def with_options(experiment: TrainConfig, **options: object) -> TrainConfig:
    """The experiment with some of `[optimiser]` changed."""
    return experiment.model_copy(update={"optimiser": experiment.optimiser.model_copy(update=options)})


def with_data(experiment: TrainConfig, **data: object) -> TrainConfig:
    """The experiment with some of `[data]` changed."""
    return experiment.model_copy(update={"data": experiment.data.model_copy(update=data)})
