"""The encoder-decoder transformer: `encode` once, `decode` a step at a time, `forward` to train.

The decoder sees source K/V, never encoder states. No method reads a tensor's value or branches on
one: what a decode step computes depends on shapes alone, but for the `Memory` that it is given.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from model.attention import combine_masks, look_ahead_mask, padding_mask
from model.cache import KV, Cache, Memory, NoCache, PackedSources
from model.config import ModelConfig
from model.layers import DecoderLayer, EncoderLayer, final_norm, sinusoidal_positions


class Transformer(nn.Module):
    """Token embedding shared by source, target and output projection; sinusoidal positions."""

    positions: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.register_buffer("positions", sinusoidal_positions(config.max_positions, config.d_model), persistent=False)
        self.embedding_dropout = nn.Dropout(config.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.encoder_norm = final_norm(config)
        self.decoder = nn.ModuleList(DecoderLayer(config, layer) for layer in range(config.decoder_layers))
        self.decoder_norm = final_norm(config)
        # A module of its own, not a matmul with the embedding, so that quantisation reaches it.
        self.projection = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self._initialise()
        self.projection.weight = self.embedding.weight

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.normal_(self.embedding.weight, std=self.config.d_model**-0.5)

    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        """`ids [batch, length]` at `positions [batch, length]` -> `[batch, length, d_model]`."""
        states = self.embedding(ids) * math.sqrt(self.config.d_model) + self.positions[positions]
        embedded: Tensor = self.embedding_dropout(states)
        return embedded

    def encode(self, source_ids: Tensor, source_mask: Tensor) -> list[KV]:
        """Run the encoder over `source_ids [batch, source]`; return each decoder layer's source K/V.

        `source_mask` is a padding mask `[batch, 1, 1, source]`.
        """
        return self._encode(source_ids, _positions_of(source_ids), source_mask, NoCache())

    def encode_packed(self, source_ids: Tensor, positions: Tensor, offsets: Tensor) -> list[KV]:
        """As `encode`, without padding: all sources in one row, source s from `offsets[s]` to `offsets[s + 1]`.

        `source_ids` and `positions` (each source's begin at 0) are `[1, tokens]`; so are the K/V's positions.
        """
        return self._encode(source_ids, positions, None, PackedSources(offsets))

    def _encode(self, source_ids: Tensor, positions: Tensor, mask: Tensor | None, cache: Cache) -> list[KV]:
        states = self.embed(source_ids, positions)
        for layer in self.encoder:
            states = layer(states, mask, cache)
        states = self.encoder_norm(states)
        return [layer.cross_attention.project(states) for layer in self._decoder_layers()]

    def decode(
        self,
        target_ids: Tensor,
        positions: Tensor,
        target_mask: Tensor | None,
        source: Sequence[Memory],
        source_mask: Tensor | None,
        cache: Cache,
    ) -> Tensor:
        """Next-token logits `[batch, length, vocab]` after each of `target_ids [batch, length]`.

        `positions [batch, length]` are the ids' own; `target_mask [batch, 1, length, keys]` covers all
        the keys that `cache` returns; `source` and `source_mask` are as `encode` gave and took them. Masks
        are None where `cache` and `source` are rows of a `SlotCache`, which know what each query may see.
        """
        states = self.embed(target_ids, positions)
        for layer, layer_source in zip(self._decoder_layers(), source, strict=True):
            states = layer(states, target_mask, layer_source, source_mask, cache)
        logits: Tensor = self.projection(self.decoder_norm(states))
        return logits

    def shift_right(self, target_ids: Tensor) -> Tensor:
        """What the decoder reads to predict `target_ids [batch, target]`: the same behind bos, without the last."""
        inputs = target_ids.roll(1, dims=1)
        inputs[:, 0] = self.config.bos_id
        return inputs

    def forward(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Teacher forcing: logits `[batch, target, vocab]` that predict each of `target_ids`.

        All ids are `[batch, length]`, padded with `pad_id` on the right. The decoder reads the target
        shifted right.
        """
        pad = self.config.pad_id
        inputs = self.shift_right(target_ids)
        positions = _positions_of(inputs)
        dtype = self.embedding.weight.dtype
        source_mask = padding_mask((source_ids != pad).sum(dim=1), source_ids.shape[1], dtype)
        target_mask = combine_masks(
            look_ahead_mask(positions, inputs.shape[1], dtype),
            padding_mask((target_ids != pad).sum(dim=1), inputs.shape[1], dtype),
        )
        source = self.encode(source_ids, source_mask)
        return self.decode(inputs, positions, target_mask, source, source_mask, NoCache())

    def _decoder_layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]


def _positions_of(ids: Tensor) -> Tensor:
    return torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
