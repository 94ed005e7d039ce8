"""The shape of the parity tests' random models, and the runners that are held to the oracle."""

from functools import cache
from typing import Any

import pytest
import torch

from model.config import ModelConfig
from service.engine.messages import Command
from service.engine.runner import Runner
from tests.conftest import random_model
from tests.parity.engine import EOS, Arrivals, Run, captured, eager, run_with

_KINDS: dict[str, dict[str, Any]] = {
    "self_attention": {},
    # A shape whose random weights write sentences of different lengths, and no near ties.
    "ssru": {"decoder_memory": "ssru", "encoder_layers": 3, "ffn_dim": 76},
}


@pytest.fixture(params=_KINDS)
def config(request: pytest.FixtureRequest) -> ModelConfig:
    """A model with each kind of memory in the decoder in turn."""
    shape = {"vocab_size": 97, "d_model": 32, "ffn_dim": 64, "num_heads": 4, "encoder_layers": 2, "decoder_layers": 2}
    return ModelConfig(**{**shape, **_KINDS[request.param]}, eos_id=EOS)


@pytest.fixture(params=[eager, captured])
def run(request: pytest.FixtureRequest, device: torch.device) -> Run:
    """The engine with each of the runners in turn, in float32.

    The runs of a test share a runner, as the requests of an engine do.
    """

    @cache
    def runner(config: ModelConfig, slots: int) -> Runner:
        built: Runner = request.param(random_model(config).to(device), slots)
        return built

    def run_it(config: ModelConfig, commands: list[Command], *, slots: int, seed: int) -> Arrivals:
        return run_with(runner(config, slots), config, commands, slots=slots, seed=seed)

    return run_it
