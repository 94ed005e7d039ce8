"""Feed-forward network, positions, residuals, and the encoder and decoder layer built of them."""

import functools
import math
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.attention import CrossAttention, SelfAttention
from model.cache import Cache, DecoderCache, KeyValueView
from model.config import Activation, DecoderMemory, ModelConfig, NormOrder

ACTIVATIONS: Final[dict[Activation, Callable[[Tensor], Tensor]]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
    "swish": F.silu,
}


def sinusoidal_positions(length: int, d_model: int) -> Tensor:
    """Return the position table `[length, d_model]` of Vaswani et al. 2017, section 3.5.

    PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d)).
    """
    # float64, then rounded once: 10000^(2i/d) loses digits in float32.
    even = torch.arange(0, d_model, 2, dtype=torch.float64)
    angles = torch.arange(length, dtype=torch.float64)[:, None] / 10000 ** (even / d_model)
    table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    return table[:, :d_model].float()


class Dropout(nn.Dropout):
    """Dropout whose random numbers are bytes on a CPU, where they take a tenth of a training step as floats.

    There the rate is rounded to a 256th.
    """

    def forward(self, states: Tensor) -> Tensor:
        if not self.training or states.device.type != "cpu":
            return super().forward(states)
        dropped = min(255, round(256 * self.p))
        words = torch.empty((states.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
        draws = words.view(torch.uint8)[: states.numel()].view(states.shape)
        return states * (draws >= dropped).to(states.dtype).mul_(256 / (256 - dropped))


def norm_of(config: ModelConfig) -> nn.Module:
    """Normalisation over `d_model`."""
    kind = nn.LayerNorm if config.norm == "layer" else nn.RMSNorm
    return kind(config.d_model, eps=config.norm_epsilon)


class Input(nn.Module):
    """The input of a stack: embeddings of tokens plus their positions."""

    table: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        if config.positions == "table":
            self.table = nn.Parameter(torch.zeros(config.max_positions, config.d_model))
        else:
            length = config.max_positions if config.positions == "sinusoidal" else 0
            self.register_buffer("table", sinusoidal_positions(length, config.d_model), persistent=False)
        self.norm = norm_of(config) if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.dropout)

    def forward(self, embedded: Tensor, positions: Tensor) -> Tensor:
        """`embedded [batch, length, d_model]` at `positions [batch, length]`; same shape back."""
        states = embedded * self.scale
        if len(self.table):
            states = states + self.table[positions]
        result: Tensor = self.dropout(self.norm(states))
        return result


class FeedForward(nn.Module):
    """`d_model -> ffn_dim -> d_model`, position by position."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.ffn_dim, config.biases)
        self.gate = nn.Linear(config.d_model, config.ffn_dim, config.biases) if config.gated else None
        self.outer = nn.Linear(config.ffn_dim, config.d_model, config.biases)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, states: Tensor) -> Tensor:
        inner = self.activation(self.inner(states))
        projected: Tensor = self.outer(inner if self.gate is None else inner * self.gate(states))
        return projected


class PreNorm(nn.Module):
    """x + f(norm(x)); `f` is a sublayer."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = norm_of(config)
        self.dropout = Dropout(config.dropout)

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
    """Return the norm at the end of a stack: pre-norm leaves its sum unnormalised, post-norm does not."""
    return norm_of(config) if config.norm_order == "pre" else nn.Identity()


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        residual = RESIDUALS[config.norm_order]
        self.self_attention = SelfAttention(config)
        self.feed_forward = FeedForward(config)
        self.attention_residual = residual(config)
        self.feed_forward_residual = residual(config)

    def forward(self, states: Tensor, mask: Tensor, cache: Cache) -> Tensor:
        states = self.attention_residual(states, lambda x: self.self_attention(x, mask, cache, 0))
        states = self.feed_forward_residual(states, self.feed_forward)
        return states


class SSRU(nn.Module):
    """The simpler simple recurrent unit, in the place of a decoder layer's self-attention.

    Kim et al. 2019, "From research to production and back", section 3.1.

    c[t] = f[t] * c[t - 1] + (1 - f[t]) * W x[t] with f[t] = sigmoid(V x[t] + b). The result is relu(c[t]), without a
    projection. What is known of earlier positions is one vector, however many there are.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.input = nn.Linear(config.d_model, config.d_model, bias=False)
        self.forget = nn.Linear(config.d_model, config.d_model)

    def forward(self, states: Tensor, mask: Tensor, cache: DecoderCache, layer: int) -> Tensor:
        """`states [batch, length, d_model]`; same shape back. `mask`, which only attention needs, is ignored."""
        forget = torch.sigmoid(self.forget(states).float())
        return F.relu(cache.recur(layer, forget, (1 - forget) * self.input(states))).to(states.dtype)


MEMORIES: Final[dict[DecoderMemory, type[SelfAttention] | type[SSRU]]] = {"self_attention": SelfAttention, "ssru": SSRU}


class DecoderLayer(nn.Module):
    """Masked self-attention, or what `MEMORIES` has in its place; cross-attention over source K/V; feed-forward."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        residual = RESIDUALS[config.norm_order]
        self.layer = layer
        self.self_attention = MEMORIES[config.decoder_memory](config)
        self.cross_attention = CrossAttention(config)
        self.feed_forward = FeedForward(config)
        self.self_attention_residual = residual(config)
        self.cross_attention_residual = residual(config)
        self.feed_forward_residual = residual(config)

    def forward(
        self,
        states: Tensor,
        target_mask: Tensor,
        source: KeyValueView,
        source_mask: Tensor,
        cache: DecoderCache,
    ) -> Tensor:
        states = self.self_attention_residual(states, lambda x: self.self_attention(x, target_mask, cache, self.layer))
        states = self.cross_attention_residual(states, lambda x: self.cross_attention(x, source, source_mask))
        states = self.feed_forward_residual(states, self.feed_forward)
        return states
