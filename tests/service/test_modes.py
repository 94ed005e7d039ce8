"""Which device a mode runs on, and which replica gets which GPU."""

import pytest
import torch

from service.engine.modes import device_of, mode_on


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
