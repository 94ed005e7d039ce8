"""Replacements of `nn.Linear` for inference; they know nothing of layers."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class PrepackedLinear(nn.Module):
    """float32 with the weight laid out for oneDNN once, at load.

    `F.linear` goes to MKL, which on other makers' processors is 2.3 to 2.8 times slower from a few
    rows on (tests/model/test_linear.py checks equality; loadtest/compare measures speed).
    """

    # The operators expect to know how many rows will come; any number works, this one is typical.
    _EXPECTED_ROWS = 16

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, self._EXPECTED_ROWS)
        self.bias = None if linear.bias is None else linear.bias.detach()

    @staticmethod
    def is_available() -> bool:
        return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]

    def forward(self, states: Tensor) -> Tensor:
        projected: Tensor = torch.ops.mkldnn._linear_pointwise(states, self.weight, self.bias, "none", [], "")
        return projected


def replace_linears(module: nn.Module, replacement: Callable[[nn.Linear], nn.Module]) -> None:
    """Put `replacement(linear)` in the place of every `nn.Linear` below `module`."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, replacement(child))
        else:
            replace_linears(child, replacement)
