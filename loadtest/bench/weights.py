"""Model shapes, and checkpoints of random weights that end each request at its own length."""

from pathlib import Path
from typing import Final, Literal

import torch

from loadtest.bench.stopping import stop_at_length_words
from loadtest.sentences import SENTENCES
from model.checkpoint import save_checkpoint
from model.checkpoint_config import CheckpointConfig, Direction, load_config, load_tokenizer
from model.config import ModelConfig
from model.transformer import Transformer
from service.settings import EMBEDDED_MODEL

RandomShape = Literal["base", "default"]
Shape = Literal[RandomShape, "trained"]
TRAINED: Final[Shape] = "trained"
"""The embedded model with its own weights, and sentences that it was made for."""

_WEIGHTS_SEED: Final = 0


def shape_config(shape: Shape) -> ModelConfig:
    """Return the config of d512, 6+6 layers and 32,000 words, or of the embedded model."""
    return ModelConfig(vocab_size=32000) if shape == "base" else load_config(EMBEDDED_MODEL).model


def sources() -> list[list[int]]:
    """Return the token ids of sentences for the embedded model."""
    direction = load_config(EMBEDDED_MODEL).all_directions()[0]
    return load_tokenizer(EMBEDDED_MODEL).encode_batch(list(SENTENCES), direction.target, direction.source)


def save_random_checkpoint(directory: Path, config: ModelConfig) -> None:
    """Save a checkpoint of this shape that stops where length words say; the weights are the same every time."""
    torch.manual_seed(_WEIGHTS_SEED)
    model = Transformer(config)
    stop_at_length_words(model)
    manifest = CheckpointConfig(directions=(Direction(source="en", target="fr"),), model=config)
    # It needs some tokenizer; the engine works on ids and does not read it.
    save_checkpoint(directory, manifest, model.state_dict(), load_tokenizer(EMBEDDED_MODEL))
