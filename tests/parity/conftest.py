"""The shape of the parity tests' random models."""

import pytest

from model.config import ModelConfig
from tests.parity.engine import EOS


@pytest.fixture
def config() -> ModelConfig:
    return ModelConfig(
        vocab_size=97, d_model=32, ffn_dim=64, num_heads=4, encoder_layers=2, decoder_layers=2, eos_id=EOS
    )
