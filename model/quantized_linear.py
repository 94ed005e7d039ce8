"""Replacements of `nn.Linear` for inference, in float32 and int8; they know nothing of layers.

`quantise_rows` makes int8 of weights; `int8_weights` lays them out for the C++ that serves.
"""

import functools
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor, nn


class PrepackedLinear(nn.Module):
    """float32 with the weight laid out for oneDNN once, at load.

    `F.linear` goes to MKL, which on other makers' processors is 2.3 to 2.8 times slower from a few
    rows on (tests/model/test_quantized_linear.py checks equality; loadtest/bench measures speed).
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


class WideLinear(nn.Module):
    """Weights in bfloat16, results in float32: for logits, since bfloat16's eight bits would make near ties equal."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = linear.weight.detach()
        self.bias = None if linear.bias is None else linear.bias.detach().float()
        self._product = _wide_product_on_gpu if self.weight.is_cuda else _wide_product

    def forward(self, states: Tensor) -> Tensor:
        projected = self._product(states.flatten(0, -2), self.weight)
        if self.bias is not None:
            projected.add_(self.bias)
        return projected.view(*states.shape[:-1], projected.shape[-1])


def _wide_product_on_gpu(states: Tensor, weight: Tensor) -> Tensor:
    """Return the product in float32. Only on a GPU does PyTorch return these sums, which it has anyway, unrounded."""
    return torch.mm(states, weight.T, out_dtype=torch.float32)


def _wide_product(states: Tensor, weight: Tensor) -> Tensor:
    return states.float() @ weight.T.float()


INT8_MAX: Final = 127
_INT7_MAX: Final = 63
_SMALLEST: Final = 1e-30  # a row of zeros has to be divided by something


class Int8Linear(nn.Module):
    """int8 with one scale for each row of activations and one for each output channel.

    The product of the integers is exact and all else works on one number at a time, so a row's result
    has the same bits alone and in any batch. (Dynamic quantisation in PyTorch has one scale for all
    rows: an outlier in one of them changes the others.) Activations are float32 `[..., in]`.

    The product is oneDNN's where it is exact, and otherwise a few float32 products with the same result,
    at about the speed of `nn.Linear`. `operator` chooses by hand, for tests.
    """

    def __init__(self, linear: nn.Linear, *, operator: bool | None = None) -> None:
        super().__init__()
        limit = _operator_limit()
        if operator is None:
            operator = limit > 0 and linear.weight.device.type == "cpu"
        # Without the operator nothing saturates.
        self.largest_weight = limit if operator else INT8_MAX
        kind: type[OperatorProduct | PlainProduct] = OperatorProduct if operator else PlainProduct
        self.product = kind(*quantise_rows(linear.weight.detach().float(), self.largest_weight))
        self.bias = None if linear.bias is None else linear.bias.detach().float()

    @staticmethod
    def is_available() -> bool:
        """Return True if it is faster than float32 here: the operator exists and is exact."""
        return _operator_limit() > 0

    def forward(self, states: Tensor) -> Tensor:
        quantised, scales = quantise_rows(states.reshape(-1, states.shape[-1]), INT8_MAX)
        projected = self.product(quantised).mul_(scales[:, None])
        if self.bias is not None:
            projected.add_(self.bias)
        return projected.view(*states.shape[:-1], projected.shape[-1])


def quantise_rows(rows: Tensor, largest: int) -> tuple[Tensor, Tensor]:
    """Whole numbers in -largest..largest, as float32 `[rows, columns]`, and what to multiply each row by, `[rows]`."""
    extremes = rows.abs().amax(dim=-1).clamp_(min=_SMALLEST)
    return (rows * (largest / extremes)[:, None]).round_(), extremes / largest


class OperatorProduct:
    """`quantised [rows, in]` times `weight [out, in]` in oneDNN, exact in int32, then times `scales [out]`.

    Activations go in as uint8 with zero point 128, and scale 1: int8 ones take a reference path a
    thousand times slower, and a scale of its own for each row is not on offer.
    """

    # As for PrepackedLinear: how many rows will come; any number works.
    _EXPECTED_ROWS = 16
    _ZERO_POINT = 128

    def __init__(self, weight: Tensor, scales: Tensor) -> None:
        rows = [self._EXPECTED_ROWS, weight.shape[1]]
        self._weight = torch.ops.onednn.qlinear_prepack(weight.to(torch.int8), rows)
        self._scales = scales
        self._zero_points = torch.zeros(len(scales), dtype=torch.int32)

    def __call__(self, quantised: Tensor) -> Tensor:
        # Flipping the sign bit adds 128 modulo 256, on a quarter of the bytes that adding to float32 moves.
        activations = quantised.to(torch.int8).view(torch.uint8).bitwise_xor_(self._ZERO_POINT)
        weight = (self._weight, self._scales, self._zero_points)
        output = (1.0, 0, torch.float32)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            activations, 1.0, self._ZERO_POINT, *weight, None, *output, "none", [], ""
        )
        return product


class PlainProduct:
    """The same product as `OperatorProduct`, bit for bit, by float32 products: for other machines, and for GPUs."""

    # 1024 * 127 * 127 < 2 ** 24: float32 holds every partial sum exactly, in any order of addition.
    _EXACT_LENGTH = 1024

    def __init__(self, weight: Tensor, scales: Tensor) -> None:
        self._weights = torch.split(weight, self._EXACT_LENGTH, dim=1)
        self._scales = scales

    def __call__(self, quantised: Tensor) -> Tensor:
        parts = torch.split(quantised, self._EXACT_LENGTH, dim=1)
        total, *rest = (part @ weight.T for part, weight in zip(parts, self._weights, strict=True))
        if rest:
            total = functools.reduce(torch.add, (part.double() for part in rest), total.double()).float()
        return total.mul_(self._scales)


@functools.cache
def _operator_limit() -> int:
    """Return the largest weight with which oneDNN's product is exact on this processor; 0 if there is none.

    Where the processor lacks VNNI oneDNN adds pairs of uint8 * int8 in 16 bits, which saturate: 2 * 255 *
    127 > 32767. Weights of 7 bits do not (2 * 255 * 63 < 32767), so there we give up a bit of the weights.
    Asked of the operator itself rather than of a list of processors.
    """
    for limit in (INT8_MAX, _INT7_MAX):
        # The largest activations and weights of either sign, more of them than any kernel takes at once.
        weight = torch.full((32, 256), float(limit))
        weight[1::2].neg_()
        quantised = torch.full((17, 256), float(INT8_MAX))
        quantised[1::2].neg_()
        ones = torch.ones(len(weight))
        exact = PlainProduct(weight, ones)(quantised)
        try:
            product = OperatorProduct(weight, ones)
            if all(torch.equal(product(quantised[:rows]), exact[:rows]) for rows in (1, len(quantised))):
                return limit
        except (AttributeError, RuntimeError):  # not in this build of PyTorch, or not for this processor
            return 0
    return 0


def replace_linears(module: nn.Module, replacement: Callable[[nn.Linear], nn.Module]) -> None:
    """Put `replacement(linear)` in the place of every `nn.Linear` below `module`."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, replacement(child))
        else:
            replace_linears(child, replacement)
