"""The devices that a mode runs on, the GPU of each replica, and the runner of each kind of model."""

from typing import Any

import pytest
import torch

from model.config import ModelConfig
from model.decoding import greedy_decode
from service.engine.messages import Submit
from service.engine.modes import device_of, mode_on
from tests.conftest import random_model
from tests.generation_requests import generation_request
from tests.parity.engine import EOS, run_with, sources


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)


@pytest.mark.usefixtures("two_gpus")
def test_replicas_take_gpus_in_turn() -> None:
    assert [device_of("cuda", replica).index for replica in range(5)] == [0, 1, 0, 1, 0]
    assert [device_of("cuda:1", replica).index for replica in range(3)] == [1, 1, 1]
    assert device_of("cpu", 3) == torch.device("cpu")
    with pytest.raises(RuntimeError, match=r"device: there is no cuda:2; .* finds 2 GPUs"):
        device_of("cuda:2", 0)


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(RuntimeError, match=r"device: there is no cuda; .* finds no GPUs"):
        device_of("cuda", 0)


def test_a_mode_that_the_device_does_not_run() -> None:
    gpu = torch.device("cuda")
    assert mode_on("bf16", gpu).dtype == torch.bfloat16
    with pytest.raises(RuntimeError, match="mode: int8 does not run on cuda; fp32 and bf16 do"):
        mode_on("int8", gpu)


@pytest.mark.parametrize("mode", ["fp32", "int8"])
def test_transformers_of_every_kind_run_on_a_cpu(mode: str, config: ModelConfig) -> None:
    kinds: list[dict[str, Any]] = [
        {
            "positions": "relative",
            "norm": "rms",
            "gated": True,
            "biases": False,
            "head_size": 6,
            "tied_projection": False,
        },
        {"positions": "table", "embedding_norm": True, "norm_order": "post", "source_vocab_size": 97},
    ]
    for kind in kinds:
        changed = config.model_copy(update={"max_positions": 64, "eos_id": EOS, **kind})
        runner = mode_on(mode, torch.device("cpu")).build_runner(random_model(changed), 4, 64)
        texts = sources(12)
        commands = [Submit(i, generation_request(source, 30), 0.0) for i, source in enumerate(texts)]
        arrivals = run_with(runner, changed, list(commands), slots=4, seed=1)
        assert len({tuple(ids) for ids in arrivals.tokens.values()}) > 3, "outputs that are all alike test nothing"
        if mode == "fp32":
            expected = greedy_decode(random_model(changed), texts, 30)
            assert [arrivals.tokens[i] for i in range(len(texts))] == expected
