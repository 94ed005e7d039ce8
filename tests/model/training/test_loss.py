"""The chunked loss is PyTorch's cross-entropy, and its gradients are too."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from model.training.loss import smoothed_cross_entropy

PAD = 0


def _inputs(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """States, weight and target ids; two of the 23 positions are padding."""
    torch.manual_seed(0)
    states = torch.randn(23, 16, dtype=dtype, requires_grad=True)
    weight = torch.randn(31, 16, requires_grad=True)
    target = torch.randint(1, 31, (23,))
    target[[4, 22]] = PAD
    return states, weight, target


def _gradients(loss: Tensor, *inputs: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, inputs))


# One chunk, chunks that divide 23 positions into unequal parts, and a position at a time.
@pytest.mark.parametrize("chunk", [1024, 10, 1])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients_are_those_of_cross_entropy(chunk: int, smoothing: float) -> None:
    states, weight, target = _inputs()
    nats = smoothed_cross_entropy(states, weight, target, PAD, smoothing, chunk)
    expected = F.cross_entropy(states @ weight.T, target, ignore_index=PAD, reduction="sum", label_smoothing=smoothing)
    upstream = 0.37  # a step divides by its tokens
    for ours, theirs in zip(
        _gradients(upstream * nats, states, weight), _gradients(upstream * expected, states, weight), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("chunk", [1024, 10])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_value_is_without_smoothing_so_that_runs_compare(chunk: int, smoothing: float) -> None:
    states, weight, target = _inputs()
    expected = F.cross_entropy(states @ weight.T, target, ignore_index=PAD, reduction="sum")
    torch.testing.assert_close(smoothed_cross_entropy(states, weight, target, PAD, smoothing, chunk), expected)


def test_padding_has_no_value_and_no_gradient() -> None:
    states, weight, _ = _inputs()
    nats = smoothed_cross_entropy(states, weight, torch.full((23,), PAD), PAD, 0.1)
    assert nats.item() == 0
    assert all(not gradient.any() for gradient in _gradients(nats, states, weight))


def test_states_in_bfloat16_give_nearly_the_same() -> None:
    """The weight and its gradient stay in float32."""
    states, weight, target = _inputs(torch.bfloat16)
    nats = smoothed_cross_entropy(states, weight, target, PAD, 0.1, chunk=10)
    exact_states = states.detach().float().requires_grad_()
    exact = smoothed_cross_entropy(exact_states, weight, target, PAD, 0.1)
    assert nats.dtype == torch.float32
    assert nats.item() == pytest.approx(exact.item(), rel=0.01)
    for ours, theirs, dtype in zip(
        _gradients(nats, states, weight),
        _gradients(exact, exact_states, weight),
        (torch.bfloat16, torch.float32),
        strict=True,
    ):
        assert ours.dtype == dtype
        assert (ours.float() - theirs).norm() < 0.02 * theirs.norm()


def test_a_probability_of_nothing_is_a_large_number_and_a_logit_that_is_no_number_is_none() -> None:
    states, weight = torch.tensor([[1000.0]]), torch.tensor([[1.0], [-1.0]])
    assert smoothed_cross_entropy(states, weight, torch.tensor([1]), PAD).item() == pytest.approx(69.1, abs=0.1)
    assert smoothed_cross_entropy(states * torch.nan, weight, torch.tensor([1]), PAD).isnan()
