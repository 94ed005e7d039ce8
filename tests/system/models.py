"""Models for a models directory: small random ones, and the embedded one as what it is not."""

from pathlib import Path

import torch

from model.checkpoint import save_checkpoint
from model.checkpoint_config import CheckpointConfig, Direction, load_config
from model.config import ModelConfig
from model.tokenizer import Tokenizer
from service.settings import EMBEDDED_MODEL
from tests.conftest import random_model
from tests.shortlists import random_shortlist


def write_model(
    directory: Path,
    tokenizer: Tokenizer,
    *directions: str,
    seed: int = 0,
    positions: int = 96,
    with_shortlist: bool = False,
    ffn_dim: int = 64,
) -> None:
    """Nonsense from one language into another, `de-en`, in full: the same for the same seed."""
    config = ModelConfig(
        vocab_size=len(tokenizer),
        d_model=32,
        ffn_dim=ffn_dim,
        num_heads=4,
        encoder_layers=2,
        decoder_layers=2,
        max_positions=positions,
    )
    pairs = tuple(Direction(source=each[:2], target=each[3:]) for each in directions)
    described = CheckpointConfig(directions=pairs, model=config)
    shortlist = random_shortlist(config) if with_shortlist else None
    save_checkpoint(directory, described, random_model(config, seed).state_dict(), tokenizer, torch.float32, shortlist)


def relabel_embedded_model(directory: Path, direction: str) -> None:
    """Relabel the embedded model: unlike a random one, it ends its sentences whatever the languages are."""
    directory.mkdir()
    for file in EMBEDDED_MODEL.iterdir():
        if file.name != "config.json":
            (directory / file.name).symlink_to(file)
    pair = Direction(source=direction[:2], target=direction[3:])
    described = load_config(EMBEDDED_MODEL).model_copy(update={"directions": (pair,)})
    (directory / "config.json").write_text(described.model_dump_json())
