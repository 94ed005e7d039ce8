"""Names of ids in converted checkpoints; tests/model/formats/test_ctranslate2.py holds their outputs equal to ours."""

from pathlib import Path

import pytest

from model.checkpoint import save_checkpoint
from model.checkpoint_config import CheckpointConfig, Direction
from model.config import ModelConfig
from model.tokenizer import Tokenizer
from model.transformer import Transformer

pytest.importorskip("ctranslate2")
from loadtest.bench.ctranslate2_model import pieces


def test_every_id_has_a_name_of_its_own(config: ModelConfig, tokenizer: Tokenizer, tmp_path: Path) -> None:
    """The tokenizer may have fewer pieces than the model has ids, or more."""
    for vocab_size in (config.vocab_size, len(tokenizer) + 100):
        model = Transformer(config.model_copy(update={"vocab_size": vocab_size}))
        described = CheckpointConfig(directions=(Direction(source="en", target="fr"),), model=model.config)
        save_checkpoint(tmp_path, described, model.state_dict(), tokenizer)
        assert len(set(pieces(tmp_path))) == vocab_size
