"""A replaced model computes what the original does."""

import pytest
import torch
from torch import nn

from model.config import ModelConfig
from model.linear import PrepackedLinear, replace_linears
from tests.conftest import random_model


@pytest.mark.parametrize("rows", [1, 2, 8, 65])
@pytest.mark.parametrize("bias", [True, False])
def test_prepacked_equals_linear(rows: int, bias: bool) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(48, 96, bias=bias)
    states = torch.randn(rows, 3, 48)
    with torch.inference_mode():
        torch.testing.assert_close(PrepackedLinear(linear)(states), linear(states))


def test_every_linear_is_reached(config: ModelConfig) -> None:
    original, replaced = random_model(config), random_model(config)
    replace_linears(replaced, PrepackedLinear)
    assert not any(isinstance(module, nn.Linear) for module in replaced.modules())
    source, target = torch.randint(3, 97, (2, 5)), torch.randint(3, 97, (2, 7))
    with torch.inference_mode():
        torch.testing.assert_close(replaced(source, target), original(source, target), rtol=1e-4, atol=1e-4)
