"""Small random models, as a models directory holds them."""

from pathlib import Path

import torch

from model.checkpoint import save_checkpoint
from model.config import ModelConfig
from model.manifest import CheckpointConfig, Direction
from model.tokenizer import Tokenizer
from tests.conftest import random_model


def write_model(directory: Path, tokenizer: Tokenizer, *directions: str, seed: int = 0, positions: int = 96) -> None:
    """Nonsense from one language into another, `de-en`, in full: the same for the same seed."""
    config = ModelConfig(
        vocab_size=len(tokenizer),
        d_model=32,
        ffn_dim=64,
        num_heads=4,
        encoder_layers=2,
        decoder_layers=2,
        max_positions=positions,
    )
    pairs = tuple(Direction(source=each[:2], target=each[3:]) for each in directions)
    described = CheckpointConfig(directions=pairs, model=config)
    save_checkpoint(directory, described, random_model(config, seed).state_dict(), tokenizer, torch.float32)
