"""The decode step and the encoder with fixed shapes: a CUDA graph records them once and replays them.

Nothing here reads a tensor's value. Rows and the width of attention are given when a step is made; tensors of positions
and lengths, or masks computed from them, determine what rows attend to. Inputs and outputs stay at the same addresses.
Padding rows extend a slot that is never read.
"""

from functools import cached_property
from typing import Final, Literal, NamedTuple

import torch
from torch import Tensor

from model.attention import segment_mask
from model.config import ModelConfig
from model.decode_step import Queries
from model.sampling import Sampled, SamplingParameters, noise_states, peak, sample
from model.slot_cache import SlotCache
from model.slot_decoder import Width, decode
from model.transformer import Transformer

INPUTS: Final = 8
"""Rows of a step's inputs: tokens, positions, slots, source slots, source lengths, and of plain rows the number of
tokens that each may still write, top-k and seed."""

_ROOM: Final = 5

SamplingKind = Literal["none", "free", "restricted"]
"""The sampling of a step: no row samples; some do, without top-k and nucleus; with these."""


class Bucket(NamedTuple):
    """The shape of a decode step: its rows attend to no more than `width` positions."""

    rows: int
    width: int
    with_alignment: bool = False
    with_self_attention: bool = False
    sampling: SamplingKind = "none"


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


class Arrivals(NamedTuple):
    """A step's `tokens` and `logprobs` on the CPU."""

    tokens: Tensor
    logprobs: Tensor


class StepBuffers:
    """Inputs and outputs of steps of so many rows, always at the same addresses: on the device, and on the CPU the
    memory that copies go from and to, pinned where the CPU would otherwise wait for them."""

    def __init__(self, rows: int, tables: StepTables, padding: Tensor) -> None:
        device = tables.logits.device
        self._tables = tables
        self.padding = padding
        """The inputs of a row that fills up a step, or takes the place of one that has ended: `[INPUTS, 1]`."""
        self.inputs = torch.zeros(INPUTS, rows, dtype=torch.int64, device=device)
        """`[INPUTS, rows]`; after a step it holds the next step's inputs."""
        self.options = torch.ones(2, rows, device=device)
        """Temperature, 0 if greedy, and nucleus of each row, float32 `[2, rows]`; read only if some row samples."""
        self.tokens = torch.zeros(rows, dtype=torch.int64, device=device)
        """The most probable id of each row, or a sampled row's, `[rows]`."""
        self.logprobs = torch.zeros(rows, device=device)
        """The token's log-probability, float32 `[rows]`."""
        self.logits = tables.logits[:rows]
        """float32 `[rows, vocab]`."""
        self.alignment = tables.alignment[:rows]
        """Cross-attention weights of each row, float32 `[rows, width]`, followed by values of earlier steps."""
        pinned = device.type == "cuda"
        self.own_inputs = torch.zeros_like(self.inputs, device="cpu", pin_memory=pinned)
        """`inputs` of the CPU."""
        self.own_options = torch.zeros_like(self.options, device="cpu", pin_memory=pinned)
        """`options` of the CPU."""
        self.arrivals = [
            Arrivals(
                *(torch.zeros_like(each, device="cpu", pin_memory=pinned) for each in (self.tokens, self.logprobs))
            )
            for _ in range(2)
        ]
        """Outputs of two steps: the first step's are read while the second runs."""

    @property
    def rows(self) -> int:
        return self.inputs.shape[1]

    @property
    def self_attention(self) -> Tensor:
        """Self-attention weights of each row, layer by layer: `[rows, layers, width]`, else as `alignment`."""
        return self._tables.self_attention[: self.rows]


class StaticDecodeStep:
    """One decode step of a bucket's shape.

    `cache` has one slot more than there are for requests, the last: padding rows write there.
    """

    def __init__(self, model: Transformer, cache: SlotCache, buffers: StepBuffers, bucket: Bucket) -> None:
        self._sampling = bucket.sampling
        self.buffers = buffers
        self._model = model
        self._cache = cache
        self._width = bucket.width
        self._with_alignment = bucket.with_alignment
        # Allocated here, if at all: memory allocated while a graph is recorded belongs to the graph.
        self._self_attention = buffers.self_attention if bucket.with_self_attention else None

    def __call__(self) -> None:
        """Read `buffers.inputs`, write all else there, and the rows' K/V; attention weights only if requested."""
        buffers = self.buffers
        logits = decode(
            self._model,
            self._cache,
            Queries(*buffers.inputs[: len(Queries._fields)]),
            Width(self._width, self._width),
            self._keep_alignment if self._with_alignment else None,
            self._keep_self_attention if self._self_attention is not None else None,
        )
        buffers.logits.copy_(logits)
        chosen = self._choose()
        buffers.tokens.copy_(chosen.tokens)
        buffers.logprobs.copy_(chosen.logprobs)
        self._continue(chosen.tokens)

    def _choose(self) -> Sampled:
        buffers = self.buffers
        best = peak(buffers.logits)
        most_probable = best.sampled
        if self._sampling == "none":
            return most_probable
        _, positions, *_, top_ks, seeds = buffers.inputs
        temperatures, top_ps = buffers.options
        options = SamplingParameters(temperatures, top_ks, top_ps, noise_states(seeds, positions))
        drawn = sample(buffers.logits, options, is_restricted=self._sampling == "restricted", best=best)
        is_greedy = temperatures <= 0
        return Sampled(*(torch.where(is_greedy, *each) for each in zip(most_probable, drawn, strict=True)))

    def _continue(self, tokens: Tensor) -> None:
        """Write the inputs of the next step, in which a row that has ended is padding."""
        inputs = self.buffers.inputs
        inputs[0].copy_(tokens)
        inputs[1].add_(1)
        inputs[_ROOM].sub_(1)
        has_ended = (tokens == self._model.config.eos_id) | (inputs[_ROOM] <= 0)
        inputs.copy_(torch.where(has_ended, self.buffers.padding, inputs))

    def _keep_alignment(self, weights: Tensor) -> None:
        self.buffers.alignment[:, : self._width].copy_(weights)

    def _keep_self_attention(self, layer: int, weights: Tensor) -> None:
        assert self._self_attention is not None
        self._self_attention[:, layer, : self._width].copy_(weights)


class StaticEncodeStep:
    """Encodes the sources of `inputs` into their slots of `cache`.

    `inputs [4, tokens]`, int64, has each token's id and position, the number of its source, and that one's slot.
    Not for relative positions: the biases of all pairs of tokens would take more memory than padding does.
    """

    def __init__(self, model: Transformer, cache: SlotCache, inputs: Tensor) -> None:
        self._inputs = inputs
        self._model = model
        self._cache = cache

    def __call__(self) -> None:
        ids, positions, sources, slots = self._inputs
        mask = segment_mask(sources[None], sources[None], self._model.embedding.weight.dtype)
        encoded = self._model.encode_segments(ids[None], positions[None], mask)
        self._cache.write_source_tokens(slots, positions, encoded)
