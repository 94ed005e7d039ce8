"""The decode step with fixed shapes: what a CUDA graph can record once and replay for other requests.

Nothing here reads a tensor's value. Rows and the width of attention are given when a step is made; masks, which are
computed from tensors of positions and lengths, determine what rows attend to. Inputs and outputs stay at the same
addresses. Padding rows extend a slot that nobody reads.
"""

from functools import cached_property
from typing import Final

import torch
from torch import Tensor

from model.attention import look_ahead_mask, padding_mask
from model.cache import SlotCache
from model.config import ModelConfig
from model.inspection import InspectedCache, InspectedKV
from model.sampling import greedy
from model.transformer import Transformer

INPUTS: Final = 5
"""Rows of a step's inputs: tokens, positions, slots, source slots and source lengths."""


class StepTables:
    """Large output tensors for up to `rows` rows, shared by steps that run one at a time."""

    def __init__(self, rows: int, config: ModelConfig, max_width: int, device: torch.device) -> None:
        self._shape = rows, config.self_attention_layers, max_width
        self.logits = torch.zeros(rows, config.vocab_size, device=device)
        self.alignment = torch.zeros(rows, max_width, device=device)

    @cached_property
    def self_attention(self) -> Tensor:
        """Self-attention weights, allocated for the first step that returns them: large, and rarely requested."""
        return torch.zeros(*self._shape, device=self.logits.device)


class StepBuffers:
    """Inputs and outputs of steps of so many rows, always at the same addresses."""

    def __init__(self, rows: int, tables: StepTables) -> None:
        device = tables.logits.device
        self._tables = tables
        self.inputs = torch.zeros(INPUTS, rows, dtype=torch.int64, device=device)
        """`[INPUTS, rows]`; after a step it holds the next step's inputs, if each row takes its best token."""
        self.tokens = torch.zeros(rows, dtype=torch.int64, device=device)
        """The most probable id of each row, `[rows]`."""
        self.logprobs = torch.zeros(rows, device=device)
        """The token's log-probability, float32 `[rows]`."""
        self.logits = tables.logits[:rows]
        """float32 `[rows, vocab]`."""
        self.alignment = tables.alignment[:rows]
        """Cross-attention weights of each row, float32 `[rows, width]`, followed by values of earlier steps."""

    @property
    def rows(self) -> int:
        return self.inputs.shape[1]

    @property
    def self_attention(self) -> Tensor:
        """Self-attention weights of each row, layer by layer: `[rows, layers, width]`, else as `alignment`."""
        return self._tables.self_attention[: self.rows]


class StaticDecodeStep:
    """One decode step of `buffers.rows` rows that attend to no more than `width` positions.

    `cache` has one slot more than there are for requests, the last: padding rows write there.
    """

    def __init__(
        self,
        model: Transformer,
        cache: SlotCache,
        buffers: StepBuffers,
        width: int,
        *,
        with_alignment: bool,
        with_self_attention: bool,
    ) -> None:
        self.buffers = buffers
        self._model = model
        self._cache = cache
        self._width = width
        self._with_alignment = with_alignment
        # Allocated here, if at all: memory allocated while a graph is recorded belongs to the graph.
        self._self_attention = buffers.self_attention if with_self_attention else None

    def __call__(self) -> None:
        """Read `buffers.inputs`, write all else there, and the rows' K/V; attention weights only if requested."""
        buffers, width, dtype = self.buffers, self._width, self._model.embedding.weight.dtype
        tokens, positions, slots, source_slots, source_lengths = buffers.inputs
        positions, slots = positions[:, None], slots[:, None]
        *sources, last = self._cache.padded_source(source_slots, width)
        last_view = InspectedKV(last, self._keep_alignment) if self._with_alignment else last
        own = self._cache.padded_rows(slots, positions, width)
        cache = own if self._self_attention is None else InspectedCache(own, self._keep_self_attention)
        logits = self._model.decode(
            tokens[:, None],
            positions,
            look_ahead_mask(positions, width, dtype),
            [*sources, last_view],
            padding_mask(source_lengths, width, dtype),
            cache,
        )
        buffers.logits.copy_(logits[:, -1])
        best = greedy(buffers.logits)
        buffers.tokens.copy_(best.tokens)
        buffers.logprobs.copy_(best.logprobs)
        buffers.inputs[0].copy_(best.tokens)
        buffers.inputs[1].add_(1)

    def _keep_alignment(self, weights: Tensor) -> None:
        self.buffers.alignment[:, : self._width].copy_(weights)

    def _keep_self_attention(self, layer: int, weights: Tensor) -> None:
        assert self._self_attention is not None
        self._self_attention[:, layer, : self._width].copy_(weights)
