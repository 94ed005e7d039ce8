"""The mathematics of masks and attention, and agreement with torch.nn's own modules."""

import math

import pytest
import torch

from model.attention import (
    RelativeBias,
    attention_weights,
    combine_masks,
    look_ahead_mask,
    padding_mask,
    segment_mask,
)
from model.cache import KV, TeachingKV
from model.config import ModelConfig


def test_masks_by_hand() -> None:
    inf = math.inf
    padding = padding_mask(torch.tensor([3, 1]), 3)
    assert padding.tolist() == [[[[0, 0, 0]]], [[[0, -inf, -inf]]]]
    look_ahead = look_ahead_mask(torch.tensor([[0, 1, 2]]), 3)
    assert look_ahead.tolist() == [[[[0, -inf, -inf], [0, 0, -inf], [0, 0, 0]]]]
    assert combine_masks(look_ahead, padding)[1].tolist() == [[[0, -inf, -inf]] * 3]


def test_rows_may_stand_at_different_positions() -> None:
    mask = look_ahead_mask(torch.tensor([[0], [2]]), 3)
    assert mask.isneginf().tolist() == [[[[False, True, True]]], [[[False, False, False]]]]


def test_sentences_of_a_row_see_their_own_keys_alone() -> None:
    queries, keys = torch.tensor([[1, 1, 2, 0]]), torch.tensor([[1, 2, 2]])
    hidden = torch.finfo(torch.float32).min
    mask = segment_mask(queries, keys)
    assert mask.tolist() == [[[[0, hidden, hidden]] * 2 + [[hidden, 0, 0]] + [[hidden] * 3]]]
    weights = attention_weights(torch.zeros(1, 2, 4, 8), torch.zeros(1, 2, 3, 8), mask)
    assert weights[0, 0].tolist() == [[1, 0, 0], [1, 0, 0], [0, 0.5, 0.5], [pytest.approx(1 / 3)] * 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_fills_up_a_row_is_a_number_in_every_precision(dtype: torch.dtype) -> None:
    """Scores may be added to the lowest number that there is."""
    mask = segment_mask(torch.tensor([[0, 1]]), torch.tensor([[1, 1]]), dtype)
    assert mask.dtype == dtype
    query = torch.full((1, 1, 2, 4), -100.0, dtype=dtype, requires_grad=True)
    source = TeachingKV(*torch.full((2, 1, 1, 2, 4), 100.0, dtype=dtype).unbind(0))
    mixed = source.attend(query, mask, 0.0)
    mixed.sum().backward()  # type: ignore[no-untyped-call]
    assert mixed.isfinite().all()
    assert query.grad is not None
    assert query.grad.isfinite().all()


def test_products_of_matrices_attend_as_the_kernel_does() -> None:
    """Forward and all three gradients."""
    torch.manual_seed(0)
    look_ahead = look_ahead_mask(torch.arange(6).expand(2, 6), 6)
    segments = torch.tensor([[1, 1, 2, 2, 2, 0], [1, 2, 3, 3, 0, 0]])
    mask = combine_masks(look_ahead, segment_mask(segments, segments))
    upstream = torch.randn(2, 3, 6, 8)
    results = []
    inputs = [torch.randn(2, 3, 6, 8) for _ in range(3)]
    for kind in (KV, TeachingKV):
        query, keys, values = (each.clone().requires_grad_() for each in inputs)
        mixed = kind(keys, values).attend(query, mask, 0.0)
        mixed.backward(upstream)  # type: ignore[no-untyped-call]
        results.append((mixed, query.grad, keys.grad, values.grad))
    for kernel, products in zip(*results, strict=True):
        torch.testing.assert_close(products, kernel)


def test_attention_weights_are_dropped_in_training() -> None:
    torch.manual_seed(0)
    query = torch.randn(1, 1, 50, 8, requires_grad=True)
    source = TeachingKV(torch.zeros(1, 1, 50, 8), torch.ones(1, 1, 50, 8))
    mixed = source.attend(query, torch.zeros(1), 0.5)
    assert mixed.std() > 0.1
    assert mixed.mean().item() == pytest.approx(1, abs=0.05)


def test_masked_position_gets_exactly_zero_weight_and_gradient() -> None:
    torch.manual_seed(0)
    query = torch.randn(1, 2, 4, 8)
    keys = torch.randn(1, 2, 4, 8, requires_grad=True)
    values = torch.randn(1, 2, 4, 8, requires_grad=True)
    mask = padding_mask(torch.tensor([3]), 4)
    assert (attention_weights(query, keys, mask)[..., 3] == 0).all()
    KV(keys, values).attend(query, mask, 0.0).square().sum().backward()  # type: ignore[no-untyped-call]
    for tensor in (keys, values):
        assert tensor.grad is not None
        assert (tensor.grad[:, :, 3] == 0).all()
        assert (tensor.grad[:, :, :3] != 0).any()


def test_fully_masked_row_is_zero_not_nan() -> None:
    torch.manual_seed(0)
    query = torch.randn(2, 2, 3, 8, requires_grad=True)
    source = KV(torch.randn(2, 2, 3, 8, requires_grad=True), torch.randn(2, 2, 3, 8, requires_grad=True))
    mask = padding_mask(torch.tensor([3, 0]), 3)
    mixed = source.attend(query, mask, 0.0)
    assert (mixed[1] == 0).all()
    assert (attention_weights(query, source.keys, mask)[1] == 0).all()
    mixed.sum().backward()  # type: ignore[no-untyped-call]
    for tensor in (query, *source):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()


def test_weights_explain_what_attend_computes() -> None:
    torch.manual_seed(0)
    query, keys, values = torch.randn(3, 2, 4, 5, 8).unbind(0)
    mask = combine_masks(look_ahead_mask(torch.arange(5).expand(2, 5), 5), padding_mask(torch.tensor([5, 3]), 5))
    expected = attention_weights(query, keys, mask) @ values
    torch.testing.assert_close(KV(keys, values).attend(query, mask, 0.0), expected)
    torch.testing.assert_close(attention_weights(query, keys, mask).sum(-1), torch.ones(2, 4, 5))


def test_biases_of_relative_positions_have_the_keys_innermost() -> None:
    """Memory-efficient attention on a GPU refuses a mask whose last stride is not 1."""
    config = ModelConfig(vocab_size=10, d_model=8, num_heads=4, positions="relative")
    biases = RelativeBias(config, looks_ahead=False)
    positions = torch.tensor([[0, 1, 2], [4, 5, 6]])
    mask = look_ahead_mask(positions, 7)
    biased = biases(mask, positions)
    assert biased.is_contiguous()
    for head in range(4):
        expected = biases.biases.weight[biases.buckets(torch.tensor(1 - 5)), head]
        assert biased[1, head, 1, 1] == mask[1, 0, 1, 1] + expected
