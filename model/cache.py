"""Keys and values: how queries look at them, and how the decoder remembers earlier positions.

The model sees only protocols: a `Cache` remembers, and returns a `KeyValueView` to look at; a `DecoderCache`
also advances the states of recurrent layers. The caches of this module remember nothing; `model.slot_cache` serves.
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from model.recurrence import scan


class KeyValueView(Protocol):
    """Keys and values that queries look at."""

    def attend(self, query: Tensor, mask: Tensor, dropout: float) -> Tensor:
        """Scaled dot-product attention of `query [batch, heads, queries, head_dim]`; the same shape back.

        `mask` is additive.
        """
        ...


class KV(NamedTuple):
    """Projected keys and values, each `[batch, heads, length, head_dim]`."""

    keys: Tensor
    values: Tensor

    def attend(self, query: Tensor, mask: Tensor, dropout: float) -> Tensor:
        """PyTorch gives zeros for a fully masked row (tests/model/test_attention.py holds it to that)."""
        return F.scaled_dot_product_attention(query, self.keys, self.values, attn_mask=mask, dropout_p=dropout)


class TeachingKV(NamedTuple):
    """`KV` for packed training rows, whose masks leave every query a key or hide by finite numbers.

    On a CPU gradients go through plain matrix products: their backward pass takes a third of the fused kernel's time,
    but a row that a mask of -inf hides as a whole would be NaN.
    """

    keys: Tensor
    values: Tensor

    def attend(self, query: Tensor, mask: Tensor, dropout: float) -> Tensor:
        if not query.requires_grad or query.device.type != "cpu":
            return KV(*self).attend(query, mask, dropout)
        scores = (query * query.shape[-1] ** -0.5) @ self.keys.transpose(-2, -1)
        weights = torch.softmax(scores + mask, dim=-1)
        return F.dropout(weights, dropout) @ self.values


class Cache(Protocol):
    """Memory of the positions already decoded, for self-attention."""

    def update(self, layer: int, new: KV) -> KeyValueView:
        """Take the K/V of this call's positions; return all that its queries may look at."""
        ...


class DecoderCache(Cache, Protocol):
    """Memory of the positions already decoded, for self-attention or for a recurrent layer in its place."""

    def recur(self, layer: int, keep: Tensor, new: Tensor) -> Tensor:
        """Return the state of each of this call's positions, keep * (state before) + new, and remember the last.

        All are `[batch, length, d_model]`, the states in float32.
        """
        ...


class NoCache:
    """Full forward passes: all positions are in the call, nothing is remembered."""

    def update(self, layer: int, new: KV) -> KV:
        return new

    def recur(self, layer: int, keep: Tensor, new: Tensor) -> Tensor:
        return scan(keep, new)


class TeachingCache:
    """`NoCache` for packed training rows; `starts [rows, positions]` is True where a sentence begins."""

    def __init__(self, starts: Tensor) -> None:
        self._starts = starts

    def update(self, layer: int, new: KV) -> TeachingKV:
        return TeachingKV(*new)

    def recur(self, layer: int, keep: Tensor, new: Tensor) -> Tensor:
        return scan(keep.masked_fill(self._starts[..., None], 0.0), new)
