"""Keys and values: the pair itself, and where the decoder keeps those of earlier positions.

The model sees only the `Cache` protocol. It knows nothing of requests; slots are row numbers here.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from model.config import ModelConfig


class KV(NamedTuple):
    """Projected keys and values, each `[batch, heads, length, head_dim]`."""

    keys: Tensor
    values: Tensor


class Cache(Protocol):
    """What self-attention asks of the positions already decoded."""

    def update(self, layer: int, new: KV) -> KV:
        """Take the K/V of this call's positions; return every K/V that its queries may look at."""
        ...


Slots = Tensor | slice
"""Slot numbers `[rows]`; or `slice(0, rows)` when the first `rows` slots are meant, which spares a copy."""


class NoCache:
    """Training and full forward passes: all positions are in the call, nothing is remembered."""

    def update(self, layer: int, new: KV) -> KV:
        return new


class SlotCache:
    """The serving arena: K/V of up to `slots` requests, allocated once.

    Self-attention K/V grow by one position a step; source K/V are written once per request. A slot
    keeps whatever its last user left: masks, not zeroing, keep rows apart, so every tensor starts
    out finite.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        slots: int,
        max_source_length: int,
        max_target_length: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        def arena(length: int) -> Tensor:
            shape = (config.decoder_layers, slots, config.num_heads, length, config.head_dim)
            return torch.zeros(shape, dtype=dtype, device=device)

        self._target = KV(arena(max_target_length), arena(max_target_length))
        self._source = KV(arena(max_source_length), arena(max_source_length))

    def write_source(self, slots: Tensor, source: Sequence[KV]) -> None:
        """Store the encoder's K/V of rows `slots [rows]`, one `KV [rows, heads, source, head_dim]` a layer."""
        for layer, new in enumerate(source):
            length = new.keys.shape[2]
            self._source.keys[layer, slots, :, :length] = new.keys
            self._source.values[layer, slots, :, :length] = new.values

    def source(self, slots: Slots, length: int) -> list[KV]:
        """The first `length` source positions of rows `slots`, one `KV` a layer."""
        return [
            KV(keys[slots, :, :length], values[slots, :, :length]) for keys, values in zip(*self._source, strict=True)
        ]

    def rows(self, slots: Slots, positions: Tensor, length: int) -> "SlotRows":
        """The cache of one decode call: rows `slots` at `positions [rows, steps]`, seeing `length` keys."""
        return SlotRows(self._target, slots, positions, length)


class SlotRows:
    """Some rows of a `SlotCache` at some positions, as the decoder's `Cache` for one call."""

    def __init__(self, target: KV, slots: Slots, positions: Tensor, length: int) -> None:
        self._target = target
        self._slots = slots
        self._rows = torch.arange(slots.stop, device=positions.device) if isinstance(slots, slice) else slots
        self._positions = positions
        self._length = length

    def update(self, layer: int, new: KV) -> KV:
        rows = self._rows[:, None]
        keys, values = self._target.keys[layer], self._target.values[layer]
        # Index tensors around a slice put [rows, steps] first, hence the transpose of the new K/V.
        keys[rows, :, self._positions] = new.keys.transpose(1, 2)
        values[rows, :, self._positions] = new.values.transpose(1, 2)
        return KV(keys[self._slots, :, : self._length], values[self._slots, :, : self._length])
