"""Positions by the formula; layers against torch.nn's with copied weights."""

import math

import pytest
import torch
from torch import nn

from model.attention import MultiHeadAttention, SelfAttention, look_ahead_mask, padding_mask
from model.cache import NoCache
from model.config import ModelConfig, NormOrder
from model.layers import DecoderLayer, Dropout, EncoderLayer, FeedForward, sinusoidal_positions


@pytest.mark.parametrize("d_model", [3, 512])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_sinusoidal_positions_by_the_formula(d_model: int, position: int) -> None:
    row = sinusoidal_positions(3, d_model)[position]
    expected = []
    for dimension in range(d_model):
        angle = position / 10000 ** (2 * (dimension // 2) / d_model)
        expected.append(math.cos(angle) if dimension % 2 else math.sin(angle))
    torch.testing.assert_close(row, torch.tensor(expected))


def _config(order: NormOrder) -> ModelConfig:
    return ModelConfig(vocab_size=10, d_model=24, ffn_dim=40, num_heads=3, dropout=0.0, norm_order=order)


def _copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
    theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def _copy_feed_forward(ours: FeedForward, first: nn.Linear, second: nn.Linear) -> None:
    first.load_state_dict(ours.inner.state_dict())
    second.load_state_dict(ours.outer.state_dict())


def _shake(module: nn.Module) -> None:
    """Leave no parameter at 0 or 1, so that no term can be forgotten unnoticed."""
    for parameter in module.parameters():
        parameter.add_(0.2 * torch.randn_like(parameter))


@pytest.mark.parametrize("order", ["pre", "post"])
def test_encoder_layer_agrees_with_torch(order: NormOrder) -> None:
    torch.manual_seed(0)
    ours = EncoderLayer(_config(order))
    theirs = nn.TransformerEncoderLayer(24, 3, 40, dropout=0.0, batch_first=True, norm_first=order == "pre")
    with torch.no_grad():
        _shake(ours)
        _copy_attention(ours.self_attention, theirs.self_attn)
        _copy_feed_forward(ours.feed_forward, theirs.linear1, theirs.linear2)
        theirs.norm1.load_state_dict(ours.attention_residual.norm.state_dict())
        theirs.norm2.load_state_dict(ours.feed_forward_residual.norm.state_dict())
    states, lengths = torch.randn(2, 5, 24), torch.tensor([5, 3])
    expected = theirs(states, src_key_padding_mask=torch.arange(5) >= lengths[:, None])
    actual = ours(states, padding_mask(lengths, 5), NoCache())
    for row, length in enumerate(lengths):
        torch.testing.assert_close(actual[row, :length], expected[row, :length])


@pytest.mark.parametrize("order", ["pre", "post"])
def test_decoder_layer_agrees_with_torch(order: NormOrder) -> None:
    torch.manual_seed(0)
    ours = DecoderLayer(_config(order), layer=0)
    theirs = nn.TransformerDecoderLayer(24, 3, 40, dropout=0.0, batch_first=True, norm_first=order == "pre")
    with torch.no_grad():
        _shake(ours)
        assert isinstance(ours.self_attention, SelfAttention)
        _copy_attention(ours.self_attention, theirs.self_attn)
        _copy_attention(ours.cross_attention, theirs.multihead_attn)
        _copy_feed_forward(ours.feed_forward, theirs.linear1, theirs.linear2)
        theirs.norm1.load_state_dict(ours.self_attention_residual.norm.state_dict())
        theirs.norm2.load_state_dict(ours.cross_attention_residual.norm.state_dict())
        theirs.norm3.load_state_dict(ours.feed_forward_residual.norm.state_dict())
    memory, lengths = torch.randn(2, 5, 24), torch.tensor([5, 3])
    states = torch.randn(2, 4, 24)
    expected = theirs(
        states,
        memory,
        tgt_mask=torch.ones(4, 4).triu(1).bool(),
        memory_key_padding_mask=torch.arange(5) >= lengths[:, None],
    )
    target_mask = look_ahead_mask(torch.arange(4).expand(2, 4), 4)
    source = ours.cross_attention.project(memory)
    actual = ours(states, target_mask, source, padding_mask(lengths, 5), NoCache())
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_drops_its_share_and_scales_the_rest(rate: float) -> None:
    torch.manual_seed(0)
    states = torch.ones(100, 999)
    dropped = Dropout(rate)(states)
    kept = dropped[dropped != 0]
    assert 1 - len(kept) / states.numel() == pytest.approx(rate, abs=0.01)
    assert kept.unique().tolist() == [pytest.approx(1 / (1 - rate), rel=0.01)]
    assert dropped.mean().item() == pytest.approx(1, abs=0.01), "the expected value stays"


def test_dropout_is_drawn_for_each_number_and_by_the_seed() -> None:
    states = torch.ones(64, 64)
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(Dropout(0.5)(states))
    assert draws[0].equal(draws[1])
    assert 0.4 < (draws[0] != draws[2]).float().mean() < 0.6
    columns, rows = draws[0].mean(0), draws[0].mean(1)
    assert min(columns.unique().numel(), rows.unique().numel()) > 5, "no row and no column shares its draws"


def test_dropout_gives_what_it_dropped_no_gradient() -> None:
    torch.manual_seed(0)
    states = torch.randn(8, 9, requires_grad=True)
    dropped = Dropout(0.25)(states)
    dropped.sum().backward()
    assert states.grad is not None
    assert states.grad.equal(torch.where(dropped == 0, 0.0, 1 / 0.75))


def test_dropout_changes_nothing_outside_training_and_keeps_the_precision() -> None:
    states = torch.randn(4, 5, dtype=torch.bfloat16)
    assert Dropout(0.5).eval()(states) is states
    assert Dropout(0.5)(states).dtype == torch.bfloat16
    assert Dropout(0.0)(states).equal(states)
