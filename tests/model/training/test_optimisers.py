"""Optimisers of training."""

import pytest
import torch
from torch import nn
from torch.optim import Muon, Optimizer

from model.training.optimisers import FloatMuon


@pytest.mark.parametrize("shape", [(24, 40), (40, 24), (32, 32)])
def test_muon_in_float32_steps_like_pytorch_s(shape: tuple[int, int]) -> None:
    """PyTorch's rounds to bfloat16, so the steps differ by a few per cent, and no more."""
    generator = torch.Generator().manual_seed(3)
    start = torch.randn(shape, generator=generator)
    kinds = (FloatMuon, Muon)
    ours, theirs = (nn.Parameter(start.clone()) for _ in kinds)
    optimisers: list[Optimizer] = [
        kind([parameter], lr=0.1, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
        for kind, parameter in zip(kinds, (ours, theirs), strict=True)
    ]
    for _ in range(4):
        gradient = torch.randn(shape, generator=generator)
        for parameter, optimiser in zip((ours, theirs), optimisers, strict=True):
            parameter.grad = gradient.clone()
            optimiser.step()
    step, expected = ((parameter.detach() - start).flatten() for parameter in (ours, theirs))
    assert torch.cosine_similarity(step, expected, dim=0) > 0.998
    assert step.norm().item() == pytest.approx(expected.norm().item(), rel=0.02)
