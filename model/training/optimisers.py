"""Optimisers for a transformer's parameters: AdamW for all, or Muon for matrices and AdamW for the rest."""

import math
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Muon, Optimizer

from model.training.config import OptimiserConfig
from model.transformer import Transformer

_BETAS: Final = (0.9, 0.98)
_EPSILON: Final = 1e-9


def build_optimisers(model: Transformer, options: OptimiserConfig) -> list[Optimizer]:
    """Optimisers that share the parameters of `model` among them; the learning rate is set before each step."""
    matrices = _matrices(model) if options.algorithm == "muon" else []
    taken = {id(parameter) for parameter in matrices}
    others = [parameter for parameter in model.parameters() if id(parameter) not in taken]
    decay = options.weight_decay
    built: list[Optimizer] = [AdamW(others, lr=0.0, betas=_BETAS, eps=_EPSILON, weight_decay=decay, fused=True)]
    if matrices:
        # Scaled so that its updates are as large as AdamW's, and one learning rate serves both (Liu et al. 2025).
        kind = FloatMuon if matrices[0].device.type == "cpu" else Muon
        built.append(kind(matrices, lr=0.0, weight_decay=decay, adjust_lr_fn="match_rms_adamw"))
    return built


class FloatMuon(Muon):
    """PyTorch's Muon with Nesterov's momentum, in float32; the learning rate is scaled as `match_rms_adamw` says.

    PyTorch orthogonalises in bfloat16, which processors without such instructions emulate: on AVX2 that took more than
    half of a step of the embedded model.
    """

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(self, parameter: nn.Parameter, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        momentum: Tensor = state.setdefault("momentum_buffer", torch.zeros_like(parameter))
        momentum.lerp_(gradient, 1 - group["momentum"])
        update = _orthogonal(gradient.lerp(momentum, group["momentum"]), group)
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.add_(update, alpha=-group["lr"] * 0.2 * math.sqrt(max(parameter.shape)))


def _orthogonal(matrix: Tensor, group: dict[str, Any]) -> Tensor:
    """Return the nearest orthogonal matrix, nearly: a Newton-Schulz iteration takes all singular values to about 1."""
    a, b, c = group["ns_coefficients"]
    wide: Tensor = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    wide = wide / wide.norm().clamp(min=group["eps"])
    for _ in range(group["ns_steps"]):
        gram = wide @ wide.T
        wide = a * wide + (b * gram + c * gram @ gram) @ wide
    return wide.T if matrix.shape[0] > matrix.shape[1] else wide


def _matrices(model: Transformer) -> list[nn.Parameter]:
    """Return the weights of linear layers, without the output projection, whose rows are no matrix to Muon."""
    linear = (module for module in model.modules() if isinstance(module, nn.Linear) and module is not model.projection)
    return [parameter for module in linear for parameter in module.parameters() if parameter.ndim == 2]
