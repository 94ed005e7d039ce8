import pytest
from pydantic import ValidationError

from model.config import ModelConfig


def test_every_contradiction_is_named_at_once() -> None:
    with pytest.raises(ValidationError, match=r"d_model \(30\) must be a multiple of num_heads \(8\); eos_id \(99\)"):
        ModelConfig(vocab_size=50, d_model=30, num_heads=8, eos_id=99)


def test_pad_and_eos_must_differ() -> None:
    with pytest.raises(ValidationError, match="pad_id and eos_id must differ"):
        ModelConfig(vocab_size=50, pad_id=2, eos_id=2)


def test_frozen_and_closed(config: ModelConfig) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        config.d_model = 7
    with pytest.raises(ValidationError, match="num_head\n"):
        ModelConfig.model_validate({"vocab_size": 50, "num_head": 4})
