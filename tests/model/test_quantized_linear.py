"""A replaced model computes what the original does; int8 gives a row the same bits in any batch."""

import pytest
import torch
from torch import Tensor, nn

from model.config import ModelConfig
from model.quantized_linear import (
    Int8Linear,
    OperatorProduct,
    PlainProduct,
    PrepackedLinear,
    WideLinear,
    replace_linears,
)
from tests.conftest import random_model

needs_operator = pytest.mark.skipif(not Int8Linear.is_available(), reason="this PyTorch has no exact int8 operator")


@pytest.mark.parametrize("rows", [1, 2, 8, 65])
@pytest.mark.parametrize("bias", [True, False])
def test_prepacked_equals_linear(rows: int, bias: bool) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(48, 96, bias=bias)
    states = torch.randn(rows, 3, 48)
    with torch.inference_mode():
        torch.testing.assert_close(PrepackedLinear(linear)(states), linear(states))


@pytest.mark.parametrize("bias", [True, False])
def test_wide_tells_apart_what_its_inputs_do(bias: bool, device: torch.device) -> None:
    linear = _linear(bias=bias).to(device, torch.bfloat16)
    states = torch.randn(2, 3, 512).to(device, torch.bfloat16)
    wide = _apply(WideLinear(linear), states)
    assert wide.dtype == torch.float32
    exact = _apply(linear.double(), states.double())
    torch.testing.assert_close(wide.double(), exact, rtol=1e-5, atol=1e-5)


def test_every_linear_is_reached(config: ModelConfig) -> None:
    original, replaced = random_model(config), random_model(config)
    replace_linears(replaced, PrepackedLinear)
    assert not any(isinstance(module, nn.Linear) for module in replaced.modules())
    source, target = torch.randint(3, 97, (2, 5)), torch.randint(3, 97, (2, 7))
    with torch.inference_mode():
        torch.testing.assert_close(replaced(source, target), original(source, target), rtol=1e-4, atol=1e-4)


def _linear(inputs: int = 512, outputs: int = 96, bias: bool = True) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(inputs, outputs, bias=bias)


def _apply(module: nn.Module, states: Tensor) -> Tensor:
    with torch.inference_mode():
        result: Tensor = module(states)
        return result


@pytest.mark.parametrize("shape", [(512,), (1, 512), (7, 512), (2, 3, 512), (2, 1, 3, 512)])
@pytest.mark.parametrize("bias", [True, False])
def test_int8_is_near_float32(shape: tuple[int, ...], bias: bool) -> None:
    linear = _linear(bias=bias)
    states = torch.randn(shape)
    expected, found = _apply(linear, states), _apply(Int8Linear(linear), states)
    assert found.shape == expected.shape
    assert found.dtype == torch.float32
    error = (found - expected).norm() / expected.norm()
    assert 0 < error < (0.02 if Int8Linear(linear).largest_weight == 127 else 0.03)


@pytest.mark.parametrize("operator", [pytest.param(True, marks=needs_operator), False])
def test_a_row_has_the_same_bits_in_any_batch(operator: bool) -> None:
    # More inputs than one float32 product of the fallback takes; outputs that fill no whole vector.
    linear = Int8Linear(_linear(2200, 77), operator=operator)
    states = torch.randn(64, 2200)
    alone = torch.cat([_apply(linear, states[row : row + 1]) for row in range(64)])
    for rows in range(2, 65):
        assert torch.equal(_apply(linear, states[:rows]), alone[:rows])
    outlier = states.clone()
    outlier[5, 7] = 1e6
    others = torch.arange(64) != 5
    assert torch.equal(_apply(linear, outlier)[others], alone[others])
    order = torch.randperm(64)
    assert torch.equal(_apply(linear, states[order].view(4, 16, -1)).view(64, -1), alone[order])


@needs_operator
@pytest.mark.parametrize(("inputs", "outputs"), [(32, 16), (50, 7), (512, 2048), (2048, 512), (4096, 33)])
@pytest.mark.parametrize("bias", [True, False])
def test_the_fallback_has_the_bits_of_the_operator(inputs: int, outputs: int, bias: bool) -> None:
    linear = _linear(inputs, outputs, bias)
    operator, fallback = Int8Linear(linear, operator=True), Int8Linear(linear, operator=False)
    if operator.largest_weight != fallback.largest_weight:
        pytest.skip("here the operator takes weights of 7 bits")
    for rows in (0, 1, 3, 40):
        states = torch.randn(rows, inputs) * torch.logspace(-6, 6, rows)[:, None]
        assert torch.equal(_apply(operator, states), _apply(fallback, states))


@pytest.mark.parametrize("kind", [pytest.param(OperatorProduct, marks=needs_operator), PlainProduct])
@pytest.mark.parametrize("inputs", [8, 100, 1024, 1025, 4096])
def test_the_largest_numbers_do_not_saturate(kind: type[OperatorProduct | PlainProduct], inputs: int) -> None:
    """16-bit intermediate sums, which processors without VNNI have for 8-bit weights, would spoil these."""
    largest = Int8Linear(_linear()).largest_weight
    weight = torch.full((24, inputs), float(largest))
    weight[1::3] *= -1
    weight[2::3, ::2] *= -1
    states = torch.full((9, inputs), 127.0)
    states[1::3] *= -1
    states[2::3, 1::2] *= -1
    scales = torch.linspace(0.5, 2.0, 24)
    exact = (states.to(torch.int64) @ weight.to(torch.int64).T).float() * scales
    assert torch.equal(kind(weight, scales)(states), exact)


@pytest.mark.parametrize("operator", [pytest.param(True, marks=needs_operator), False])
def test_int8_of_nothing(operator: bool) -> None:
    torch.manual_seed(0)
    original = nn.Linear(32, 8)
    with torch.no_grad():
        original.weight[3] = 0
    linear = Int8Linear(original, operator=operator)
    assert _apply(linear, torch.zeros(0, 5, 32)).shape == (0, 5, 8)
    states = torch.randn(3, 32)
    states[1] = 0
    found = _apply(linear, states)
    assert torch.equal(found[1], original.bias)
    assert torch.equal(found[:, 3], original.bias[3].expand(3))


def test_int8_reaches_the_tied_projection_and_leaves_the_embedding(config: ModelConfig) -> None:
    original, replaced = random_model(config), random_model(config)
    replace_linears(replaced, Int8Linear)
    assert sum(isinstance(module, Int8Linear) for module in replaced.modules()) == 2 * 6 + 2 * 10 + 1
    assert not any(isinstance(module, nn.Linear) for module in replaced.modules())
    assert torch.equal(replaced.embedding.weight, original.embedding.weight)
    source, target = torch.randint(3, 97, (2, 5)), torch.randint(3, 97, (2, 7))
    expected, found = original(source, target), _apply_model(replaced, source, target)
    assert 0 < (found - expected).norm() / expected.norm() < 0.1


def _apply_model(model: nn.Module, *inputs: Tensor) -> Tensor:
    with torch.inference_mode():
        result: Tensor = model(*inputs)
        return result
