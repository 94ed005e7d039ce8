"""Feed-forward network, positions, residuals, and the encoder and decoder layer built of them."""

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.attention import CrossAttention, SelfAttention
from model.cache import Cache, Memory
from model.config import Activation, ModelConfig, NormOrder

ACTIVATIONS: Final[dict[Activation, Callable[[Tensor], Tensor]]] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}


def sinusoidal_positions(length: int, d_model: int) -> Tensor:
    """The position table `[length, d_model]` of Vaswani et al. 2017, section 3.5.

    PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d)).
    """
    # float64, then rounded once: 10000^(2i/d) loses digits in float32.
    even = torch.arange(0, d_model, 2, dtype=torch.float64)
    angles = torch.arange(length, dtype=torch.float64)[:, None] / 10000 ** (even / d_model)
    table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    return table[:, :d_model].float()


class FeedForward(nn.Module):
    """`d_model -> ffn_dim -> d_model`, position by position."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.ffn_dim)
        self.outer = nn.Linear(config.ffn_dim, config.d_model)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, states: Tensor) -> Tensor:
        projected: Tensor = self.outer(self.activation(self.inner(states)))
        return projected


class PreNorm(nn.Module):
    """x + f(norm(x)); `f` is a sublayer."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, states: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        result: Tensor = states + self.dropout(sublayer(self.norm(states)))
        return result


class PostNorm(PreNorm):
    """norm(x + f(x)): the original order, for public checkpoints."""

    def forward(self, states: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        result: Tensor = self.norm(states + self.dropout(sublayer(states)))
        return result


RESIDUALS: Final[dict[NormOrder, type[PreNorm]]] = {"pre": PreNorm, "post": PostNorm}


def final_norm(config: ModelConfig) -> nn.Module:
    """What ends a stack: pre-norm leaves its sum unnormalised, post-norm does not."""
    return nn.LayerNorm(config.d_model) if config.norm_order == "pre" else nn.Identity()


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        residual = RESIDUALS[config.norm_order]
        self.self_attention = SelfAttention(config.d_model, config.num_heads, config.attention_dropout)
        self.feed_forward = FeedForward(config)
        self.attention_residual = residual(config)
        self.feed_forward_residual = residual(config)

    def forward(self, states: Tensor, mask: Tensor | None, cache: Cache) -> Tensor:
        states = self.attention_residual(states, lambda x: self.self_attention(x, mask, cache, 0))
        states = self.feed_forward_residual(states, self.feed_forward)
        return states


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention over source K/V, feed-forward."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        residual = RESIDUALS[config.norm_order]
        self.layer = layer
        self.self_attention = SelfAttention(config.d_model, config.num_heads, config.attention_dropout)
        self.cross_attention = CrossAttention(config.d_model, config.num_heads, config.attention_dropout)
        self.feed_forward = FeedForward(config)
        self.self_attention_residual = residual(config)
        self.cross_attention_residual = residual(config)
        self.feed_forward_residual = residual(config)

    def forward(
        self, states: Tensor, target_mask: Tensor | None, source: Memory, source_mask: Tensor | None, cache: Cache
    ) -> Tensor:
        states = self.self_attention_residual(states, lambda x: self.self_attention(x, target_mask, cache, self.layer))
        states = self.cross_attention_residual(states, lambda x: self.cross_attention(x, source, source_mask))
        states = self.feed_forward_residual(states, self.feed_forward)
        return states
