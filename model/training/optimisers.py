"""Optimisers for a transformer's parameters: AdamW for all, or Muon for matrices and AdamW for the rest."""

from typing import Final

from torch import nn
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
        built.append(Muon(matrices, lr=0.0, weight_decay=decay, adjust_lr_fn="match_rms_adamw"))
    return built


def _matrices(model: Transformer) -> list[nn.Parameter]:
    """Return the weights of linear layers, without the output projection, whose rows are no matrix to Muon."""
    linear = (module for module in model.modules() if isinstance(module, nn.Linear) and module is not model.projection)
    return [parameter for module in linear for parameter in module.parameters() if parameter.ndim == 2]
