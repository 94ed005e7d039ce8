"""The Triton kernels: on a CPU Triton interprets them, and compiles them for GPUs that are not there."""

import importlib
import math
import os
import subprocess
from pathlib import Path

import pytest
import torch

from model import kernels
from model.config import ModelConfig
from service.engine.generation_request import Beam
from service.engine.messages import Command, Submit
from service.process.interpreter import python_command
from tests.conftest import random_model
from tests.generation_requests import generation_request
from tests.in_place import gathered_attention
from tests.parity.engine import EOS, captured, run_with, sources

triton = pytest.importorskip("triton", reason="pip install 'dragoman[triton]'")

_ROOT = Path(__file__).parents[3]
_SLOTS = 6
_POSITIONS = 150


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("head_dim", [8, 24, 64])
@pytest.mark.parametrize("has_origins", [False, True])
def test_a_row_attends_to_its_own_positions_wherever_they_are(
    device: torch.device, dtype: torch.dtype, head_dim: int, has_origins: bool
) -> None:
    generator = torch.Generator().manual_seed(head_dim)
    buffer = (2, _SLOTS, 2, _POSITIONS, head_dim)
    query = torch.randn(5, 2, 1, head_dim, generator=generator).to(dtype)[:, :, 0]
    keys, values = torch.randn(buffer, generator=generator).to(dtype)
    slots, lengths = torch.tensor([3, 0, 3, 5, 1]), torch.tensor([1, 64, 65, 150, 7])
    origins = torch.randint(_SLOTS, (_SLOTS, _POSITIONS), generator=generator, dtype=torch.int32)
    expected = gathered_attention(query, keys, values, slots, lengths, origins if has_origins else None)
    hidden = keys.clone()
    if not has_origins:
        # What other requests left behind a row's own positions is not even read.
        hidden[1, :, 7:] = math.nan
    found = kernels.attend_in_place(
        query.to(device),
        hidden.to(device),
        values.to(device),
        slots.to(device),
        lengths.to(device),
        origins.to(device) if has_origins else None,
    )
    assert found.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(found.cpu(), expected, rtol=tolerance, atol=tolerance)


def test_a_row_has_the_same_bits_in_any_company(device: torch.device) -> None:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(4, 2, 16, generator=generator).to(device)
    keys, values = torch.randn(2, _SLOTS, 2, _POSITIONS, 16, generator=generator).to(device)
    slots, lengths = torch.tensor([3, 0, 3, 5]).to(device), torch.tensor([100, 64, 65, 150]).to(device)
    together = kernels.attend_in_place(query, keys, values, slots, lengths)
    for row in range(4):
        own = slice(row, row + 1)
        assert torch.equal(together[own], kernels.attend_in_place(query[own], keys, values, slots[own], lengths[own]))


@pytest.mark.parametrize("size", [7, 4096, 10_000])
def test_the_first_of_the_largest_logits_and_its_logprob(device: torch.device, size: int) -> None:
    logits = torch.randn(4, size + 5, generator=torch.Generator().manual_seed(size))[:, :size].to(device)
    logits[0, [3, -1]] = 50.0
    logits[1] = -math.inf
    logits[1, -2] = 1.5
    logits[2, : size // 2] = -math.inf
    tokens, values, logprobs = kernels.peak_in_one_pass(logits)
    assert tokens.tolist() == logits.argmax(dim=-1).tolist()
    assert tokens[:2].tolist() == [3, size - 2]
    assert values.tolist() == logits.amax(dim=-1).tolist()
    torch.testing.assert_close(logprobs, logits.log_softmax(-1).amax(dim=-1))
    assert math.copysign(1, logprobs[1].item()) == 1


def test_a_row_with_a_nan_has_no_logprob(device: torch.device) -> None:
    """A broken row is known by that."""
    logits = torch.zeros(4, 5000, device=device)
    logits[1, 4500] = math.nan
    logits[2] = math.nan
    logits[3] = -math.inf
    assert kernels.peak_in_one_pass(logits)[2].isnan().tolist() == [False, True, True, True]


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_they_compile_for_gpus(capability: int, dtype: str) -> None:
    """Another process compiles: what is interpreted cannot be compiled."""
    command = python_command(str(Path(__file__).with_name("compile_for_gpus.py")), str(capability), dtype)
    variables = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    variables["PYTHONPATH"] = str(_ROOT)
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    assert done.stdout.split() == ["compiled"] * 5, done.stderr


def test_the_kernels_are_used_where_they_give_what_pytorch_gives(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = importlib.import_module("model.kernels.gpu")
    assert kernels._attends_in_place(device, torch.float32)
    assert kernels._attends_in_place(device, torch.bfloat16)
    assert kernels._peaks(device)
    attend, peak = gpu.attend, gpu.peak
    for wrong in (
        lambda *given: attend(*given[:-1], None),
        lambda *given: attend(*given) * (given[-1] is not None),
    ):
        monkeypatch.setattr(gpu, "attend", wrong)
        assert not kernels._attends_in_place(device, torch.float32)
    monkeypatch.setattr(gpu, "peak", lambda logits: peak(logits[:, :4096]))
    assert not kernels._peaks(device)


def test_kernels_that_are_interpreted_serve_nobody(device: torch.device, caplog: pytest.LogCaptureFixture) -> None:
    """Interpreted kernels copy to the CPU, which no CUDA graph can record."""
    if device.type != "cpu":
        pytest.skip("the kernels are compiled")
    kernels.has_triton.cache_clear()
    assert not kernels.has_triton(torch.device("cuda"))
    assert caplog.messages[-1].endswith("TRITON_INTERPRET is set")


def test_an_engine_gives_the_same_with_the_kernel(
    config: ModelConfig, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = config.model_copy(update={"num_heads": 2, "decoder_layers": 1, "eos_id": EOS})
    commands: list[Command] = [
        Submit(number, generation_request(source, 6, beam=Beam(size)), 0.0)
        for number, (source, size) in enumerate(zip(sources(3), (1, 3, 1), strict=True))
    ]
    found = []
    for kind in (True, False):
        monkeypatch.setattr(kernels, "has_triton", lambda _, kind=kind: kind)
        runner = captured(random_model(small).to(device), slots=5)
        found.append(run_with(runner, small, list(commands), slots=5, seed=0))
    assert found[0].tokens == found[1].tokens
    assert len(found[0].tokens) == 3
