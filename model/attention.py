"""Masks and multi-head attention (Vaswani et al. 2017, section 3.2).

A mask is additive: 0 where a query may look, -inf where it may not, so that the softmax gives
exactly zero. (A mask that *multiplied* scores by 0 would leave a weight of e^0 and leak.)
"""

import functools
import math

import torch
from torch import Tensor, nn

from model.cache import KV, Cache, KeyValueView
from model.config import ModelConfig


def padding_mask(lengths: Tensor, width: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Hide the padding behind each row's `lengths [batch]` -> `[batch, 1, 1, width]`."""
    columns = torch.arange(width, device=lengths.device)
    return _additive(columns >= lengths[:, None, None, None], dtype)


def look_ahead_mask(positions: Tensor, width: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Hide the future: a query at `positions [batch, queries]` sees keys 0..position.

    Returns `[batch, 1, queries, width]`. Rows may stand at different positions, so the same mask
    serves teacher forcing (positions 0, 1, 2, ...) and a step of a continuous batch.
    """
    columns = torch.arange(width, device=positions.device)
    return _additive(columns > positions[:, None, :, None], dtype)


def combine_masks(*masks: Tensor) -> Tensor:
    """Hide every position that one of the masks hides; shapes broadcast."""
    return functools.reduce(torch.minimum, masks)


def segment_mask(queries: Tensor, keys: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Hide other sentences of a packed row: a query sees the keys of its own segment.

    `queries [batch, queries]` and `keys [batch, keys]` number the sentences; returns `[batch, 1, queries, keys]`. A
    query without a key (what fills up a row) sees all of them instead of none, which would be NaN in training.
    """
    hidden = queries[:, None, :, None] != keys[:, None, None, :]
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, torch.finfo(dtype).min)


def _additive(hidden: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, -math.inf)


def attention_weights(query: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(head_dim) + mask) -> `[batch, heads, queries, keys]`.

    A row that may look nowhere gets all zeros, not NaN. For inspection and tests: a `KeyValueView` computes
    the same without materialising the weights.
    """
    scores = query @ keys.transpose(-2, -1) / math.sqrt(query.shape[-1]) + mask
    weights = torch.softmax(scores, dim=-1)
    return weights.masked_fill(mask.isneginf().all(dim=-1, keepdim=True), 0.0)


class RelativeBias(nn.Module):
    """Biases that a head adds to scores for the distance of query and key (Raffel et al. 2020, section 2.1).

    Half of the buckets are one distance each, the others hold ever wider ranges, up to `relative_distance`.
    """

    def __init__(self, config: ModelConfig, *, looks_ahead: bool) -> None:
        super().__init__()
        self.looks_ahead = looks_ahead
        self.longest = config.relative_distance
        self.biases = nn.Embedding(config.relative_buckets, config.num_heads)

    def forward(self, mask: Tensor, positions: Tensor) -> Tensor:
        """Add the biases of queries at `positions [batch, queries]` to `mask [batch, 1, queries, keys]`.

        Keys are at positions 0, 1, 2, ... Returns `[batch, heads, queries, keys]`.
        """
        keys = torch.arange(mask.shape[-1], device=mask.device)
        biases: Tensor = self.biases(self.buckets(keys - positions[..., None]))
        # The heads are the innermost dimension of the biases, and a sum keeps that: memory-efficient attention on a GPU
        # needs the keys there.
        return (mask + biases.permute(0, 3, 1, 2)).contiguous()

    def buckets(self, distances: Tensor) -> Tensor:
        """Return the bucket of each distance, which is the key's position less the query's."""
        count = self.biases.num_embeddings
        ahead = torch.zeros_like(distances)
        if self.looks_ahead:
            count //= 2
            ahead = (distances > 0) * count
            distances = distances.abs()
        else:
            distances = (-distances).clamp(min=0)
        exact = count // 2
        ratio = (distances.clamp(min=1) / exact).log() / math.log(self.longest / exact)
        far = (exact + (ratio * (count - exact)).long()).clamp(max=count - 1)
        return ahead + torch.where(distances < exact, distances, far)


class MultiHeadAttention(nn.Module):
    """Projections around a `KeyValueView`'s attention; subclasses say where keys and values come from."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.dropout = config.attention_dropout
        width = config.num_heads * config.head_dim
        self.query = nn.Linear(config.d_model, width, config.biases)
        self.key = nn.Linear(config.d_model, width, config.biases)
        self.value = nn.Linear(config.d_model, width, config.biases)
        self.output = nn.Linear(width, config.d_model, config.biases)

    def project(self, states: Tensor) -> KV:
        """Keys and values of `states [batch, length, d_model]`."""
        return KV(self._split_heads(self.key(states)), self._split_heads(self.value(states)))

    def attend_from(self, states: Tensor, source: KeyValueView, mask: Tensor) -> Tensor:
        """Let `states [batch, queries, d_model]` look at `source`; same shape back."""
        query = self._split_heads(self.query(states))
        mixed = source.attend(query, mask, self.dropout if self.training else 0.0)
        merged: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return merged

    def _split_heads(self, states: Tensor) -> Tensor:
        """`[batch, length, d_model]` -> `[batch, heads, length, head_dim]`."""
        batch, length, _ = states.shape
        return states.view(batch, length, self.num_heads, -1).transpose(1, 2)


class SelfAttention(MultiHeadAttention):
    """Self-attention over this call's states and the earlier positions in `cache`."""

    def forward(self, states: Tensor, mask: Tensor, cache: Cache, layer: int) -> Tensor:
        return self.attend_from(states, cache.update(layer, self.project(states)), mask)


class CrossAttention(MultiHeadAttention):
    """Decoder states look at source K/V that were projected once, when the source was encoded."""

    def forward(self, states: Tensor, source: KeyValueView, mask: Tensor) -> Tensor:
        return self.attend_from(states, source, mask)
