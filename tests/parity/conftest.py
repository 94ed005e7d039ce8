"""The shape of the parity tests' random models, and the runners that are held to the oracle."""

import pytest
import torch

from model.config import ModelConfig
from service.engine.messages import Command
from tests.conftest import random_model
from tests.parity.engine import EOS, Arrivals, Run, captured, eager, run_with


@pytest.fixture
def config() -> ModelConfig:
    return ModelConfig(
        vocab_size=97, d_model=32, ffn_dim=64, num_heads=4, encoder_layers=2, decoder_layers=2, eos_id=EOS
    )


@pytest.fixture(params=[eager, captured])
def run(request: pytest.FixtureRequest, device: torch.device) -> Run:
    """The engine with each of the runners in turn, in float32."""

    def run_it(config: ModelConfig, commands: list[Command], *, slots: int, seed: int) -> Arrivals:
        runner = request.param(random_model(config).to(device), slots)
        return run_with(runner, config, commands, slots=slots, seed=seed)

    return run_it
