"""The encoder-decoder transformer: `encode` once, `decode` a step at a time, `forward` to train.

The decoder sees source K/V, never encoder states. No method reads a tensor's value or branches on
one: a decode step depends on shapes alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from model.attention import RelativeBias, combine_masks, look_ahead_mask, padding_mask, segment_mask
from model.cache import KV, Cache, DecoderCache, KeyValueView, NoCache, TeachingCache, TeachingKV
from model.config import ModelConfig
from model.layers import DecoderLayer, EncoderLayer, Input, final_norm


class Rows(NamedTuple):
    """The source or the target side of packed pairs, each tensor `[rows, positions]`."""

    ids: Tensor
    positions: Tensor
    """The position of a token in its own sentence."""
    segments: Tensor
    """The number of the sentence in its row, the same on both sides; 0 where nothing is."""


class Transformer(nn.Module):
    """The encoder-decoder model, with one token embedding for both sides and the output, or as `config` says."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.stored_scales: dict[str, Tensor] = {}
        """Factors by which the rows of weights were multiplied when they were stored in int8, `[rows]`, by name."""
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.source_embedding = (
            None if config.source_vocab_size is None else nn.Embedding(config.source_vocab_size, config.d_model)
        )
        self.source_input = Input(config)
        self.target_input = Input(config)
        relative = config.positions == "relative"
        self.source_bias = RelativeBias(config, looks_ahead=True) if relative else None
        self.target_bias = RelativeBias(config, looks_ahead=False) if relative else None
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.encoder_norm = final_norm(config)
        self.decoder = nn.ModuleList(DecoderLayer(config, layer) for layer in range(config.decoder_layers))
        self.decoder_norm = final_norm(config)
        # A module of its own, not a matmul with the embedding, so that quantisation reaches it.
        self.projection = nn.Linear(config.d_model, config.vocab_size, config.projection_bias)
        self._initialise()
        if config.tied_projection:
            self.projection.weight = self.embedding.weight

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)

    def encode(self, source_ids: Tensor, source_mask: Tensor) -> list[KV]:
        """Run the encoder over `source_ids [batch, source]`; return each decoder layer's source K/V.

        `source_mask` is a padding mask `[batch, 1, 1, source]`.
        """
        return self._encode(source_ids, _positions_of(source_ids), source_mask)

    def encode_segments(self, source_ids: Tensor, positions: Tensor, mask: Tensor) -> list[KV]:
        """Encode without padding: all sources in one row, which `mask [1, 1, tokens, tokens]` tells apart.

        `source_ids` and `positions` (each source's begin at 0) are `[1, tokens]`; so are the K/V's positions.
        """
        assert self.source_bias is None, "its keys would have to be at positions 0, 1, 2, ..."
        return self._encode(source_ids, positions, mask)

    def _encode(self, source_ids: Tensor, positions: Tensor, mask: Tensor) -> list[KV]:
        states = self._source_states(source_ids, positions)
        return self._encode_states(states, _biased(mask, self.source_bias, positions), NoCache())

    def _source_states(self, ids: Tensor, positions: Tensor) -> Tensor:
        states: Tensor = self.source_input((self.source_embedding or self.embedding)(ids), positions)
        return states

    def _encode_states(self, states: Tensor, mask: Tensor, cache: Cache) -> list[KV]:
        for layer in self.encoder:
            states = layer(states, mask, cache)
        states = self.encoder_norm(states)
        return [layer.cross_attention.project(states) for layer in self._decoder_layers()]

    def decode(
        self,
        target_ids: Tensor,
        positions: Tensor,
        target_mask: Tensor,
        source: Sequence[KeyValueView],
        source_mask: Tensor,
        cache: DecoderCache,
    ) -> Tensor:
        """Next-token logits `[batch, length, vocab]` after each of `target_ids [batch, length]`.

        `positions [batch, length]` are the ids' own; `target_mask [batch, 1, length, keys]` covers all
        the keys that `cache` returns; `source` and `source_mask` are as `encode` gave and took them.
        """
        target_mask = _biased(target_mask, self.target_bias, positions)
        states = self.target_input(self.embedding(target_ids), positions)
        logits: Tensor = self.projection(self._decode(states, target_mask, source, source_mask, cache))
        return logits

    def _decode(
        self,
        states: Tensor,
        target_mask: Tensor,
        source: Sequence[KeyValueView],
        source_mask: Tensor,
        cache: DecoderCache,
    ) -> Tensor:
        for layer, layer_source in zip(self._decoder_layers(), source, strict=True):
            states = layer(states, target_mask, layer_source, source_mask, cache)
        normed: Tensor = self.decoder_norm(states)
        return normed

    def teach(self, source: Rows, target: Rows) -> Tensor:
        """Teacher forcing over packed pairs: the states `[rows, positions, d_model]` before the output projection.

        Those at a position predict the target id there. Layers may be in another precision than embeddings.
        """
        dtype = self._decoder_layers()[0].feed_forward.inner.weight.dtype
        look_ahead = look_ahead_mask(_positions_of(target.ids), target.ids.shape[1], dtype)
        target_mask = combine_masks(look_ahead, segment_mask(target.segments, target.segments, dtype))
        source_mask = segment_mask(source.segments, source.segments, dtype)
        cross_mask = segment_mask(target.segments, source.segments, dtype)
        cache = TeachingCache(target.positions == 0)
        source_states = self._source_states(source.ids, source.positions).to(dtype)
        memory = [TeachingKV(*each) for each in self._encode_states(source_states, source_mask, cache)]
        inputs = target.ids.roll(1, dims=1).masked_fill(target.positions == 0, self.config.bos_id)
        states = self.target_input(self.embedding(inputs), target.positions).to(dtype)
        return self._decode(states, target_mask, memory, cross_mask, cache)

    def shift_right(self, target_ids: Tensor) -> Tensor:
        """Decoder inputs that predict `target_ids [batch, target]`: the same ids after bos, without the last."""
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


def _biased(mask: Tensor, bias: RelativeBias | None, positions: Tensor) -> Tensor:
    if bias is None:
        return mask
    biased: Tensor = bias(mask, positions)
    return biased


def _positions_of(ids: Tensor) -> Tensor:
    return torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
