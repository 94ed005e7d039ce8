"""The decoder's memory while it serves: keys, values and states of many requests, each in a slot of one buffer.

Knows nothing of requests; slots are row numbers here.
"""

import contextlib
import math
import mmap
from array import array
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from model.cache import KV
from model.config import ModelConfig
from model.kernels import copy_slots
from model.recurrence import PLACES, advance_slots


class SlotKV(NamedTuple):
    """The buffer of one layer, `[slots, heads, positions, head_dim]`.

    Row r attends to the first `width` positions of `slots[r]` that its mask leaves visible. No shape depends on a
    tensor's value, as a CUDA graph needs.
    """

    keys: Tensor
    values: Tensor
    slots: Tensor
    width: int

    def gathered(self) -> KV:
        """`[rows, heads, width, head_dim]` each."""
        return KV(self.keys[self.slots, :, : self.width], self.values[self.slots, :, : self.width])

    def attend(self, query: Tensor, mask: Tensor, dropout: float) -> Tensor:
        return self.gathered().attend(query, mask, dropout)


class _Buffer(NamedTuple):
    """The form of a buffer `[layers, slots, heads, positions, width]`."""

    slots: int
    heads: int
    positions: int
    width: int
    dtype: torch.dtype | None = None
    """None: that of the weights."""


def _target_buffers(config: ModelConfig, slots: int, positions: int) -> dict[str, _Buffer]:
    """Return the forms of the buffers that keep targets of up to `positions`."""
    if config.decoder_memory == "ssru":
        # With the slot more that `advance_slots` writes to.
        return {"target_states": _Buffer(slots + 1, 1, PLACES, config.d_model, torch.float32)}
    form = _Buffer(slots, config.num_heads, positions, config.head_dim)
    return {"target_keys": form, "target_values": form}


class SlotCache:
    """The serving buffer, allocated once: keys and values of up to `slots` requests.

    Source K/V are written once per request. Self-attention K/V grow by one position a step; a recurrent layer has its
    last states instead. A slot keeps the values of its last user: masks hide all positions but those that a query's own
    request wrote. Every number starts out finite, since hidden ones are multiplied by 0.
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
        def buffer(form: _Buffer) -> Tensor:
            shape = (config.decoder_layers, *form[:4])
            if torch.device(device).type == "cpu":
                return _untouched(shape, form.dtype or dtype)
            try:
                return torch.zeros(shape, dtype=form.dtype or dtype, device=device)
            except torch.OutOfMemoryError as error:
                raise _no_memory(math.prod(shape) * (form.dtype or dtype).itemsize, error) from None

        self.slots = slots
        self.max_target_length = max_target_length
        forms = _target_buffers(config, slots, max_target_length)
        self._target = {name: buffer(form) for name, form in forms.items()}
        source = _Buffer(slots, config.num_heads, max_source_length, config.head_dim)
        self._source = KV(buffer(source), buffer(source))

    def buffers(self) -> dict[str, Tensor]:
        """Return the memory itself, `[layers, slots, heads, positions, width]` each, to read and write in place."""
        return {**self._target, "source_keys": self._source.keys, "source_values": self._source.values}

    def write_padded_source(self, slots: Tensor, source: Sequence[KV]) -> None:
        """Store what `Transformer.encode` gave, `[sources, heads, length, head_dim]`, padding included.

        `slots [sources]`.
        """
        for layer, new in enumerate(source):
            for buffer, padded in zip(self._source, new, strict=True):
                buffer[layer][slots, :, : padded.shape[2]] = padded

    def write_source_tokens(self, slots: Tensor, positions: Tensor, source: Sequence[KV]) -> None:
        """Store what `Transformer.encode_segments` gave; `slots` and `positions` are each token's, `[tokens]`."""
        for layer, new in enumerate(source):
            for buffer, packed in zip(self._source, new, strict=True):
                buffer[layer][slots, :, positions] = packed[0].transpose(0, 1)

    def copy_target(self, copies: Sequence[tuple[int, int, int]]) -> None:
        """Give slots what others keep of targets: (from slot, to slot, how many positions), one after the other."""
        if copies:
            # Of recurrent states fewer are kept than there are positions.
            places = min(buffer.shape[3] for buffer in self._target.values())
            shorter = ((origin, destination, min(count, places)) for origin, destination, count in copies)
            # By way of an array: PyTorch takes longer to read lists.
            table = torch.frombuffer(array("q", chain.from_iterable(shorter)), dtype=torch.int64).view(-1, 3)
            for buffer in self._target.values():
                copy_slots(buffer, table)

    def copy_target_at_once(self, origins: Tensor, destinations: Tensor, positions: int) -> None:
        """Copy the same number of positions for all, unlike `copy_target`; no slot is both read and written."""
        for buffer in self._target.values():
            buffer[:, destinations, :, :positions] = buffer[:, origins, :, :positions]

    def source(self, slots: Tensor, width: int) -> list[SlotKV]:
        """Return the source of each row, one `SlotKV` a layer; `slots [rows]`, no source longer than `width`."""
        return [SlotKV(keys, values, slots, width) for keys, values in zip(*self._source, strict=True)]

    def rows(self, slots: Tensor, positions: Tensor, width: int) -> "SlotRows":
        """Return the cache of one decode call: one query a row, all at `positions` below `width`; both `[rows]`."""
        return SlotRows(self._target, slots, positions, width)


def _untouched(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Zeros that cost memory page by page, when they are first used: most requests are far shorter than the longest.

    PyTorch would write the zeros, and NumPy would have the system use huge pages.
    """
    size = math.prod(shape) * dtype.itemsize
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise _no_memory(size, error) from None
    with contextlib.suppress(AttributeError, OSError):  # a hint, and not every system knows it
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return torch.frombuffer(memory, dtype=dtype).view(shape)


def _no_memory(size: int, error: Exception) -> RuntimeError:
    return RuntimeError(f"no {size} bytes of memory for keys and values ({error}): fewer slots need less")


class SlotRows:
    """Some rows of a `SlotCache`, each at a position below `width`, as the decoder's `Cache` for one call."""

    def __init__(self, target: Mapping[str, Tensor], slots: Tensor, positions: Tensor, width: int) -> None:
        self._target = target
        self._slots = slots
        self._positions = positions
        self._width = width

    def update(self, layer: int, new: KV) -> SlotKV:
        keys, values = self._target["target_keys"][layer], self._target["target_values"][layer]
        keys[self._slots, :, self._positions] = new.keys[:, :, 0]
        values[self._slots, :, self._positions] = new.values[:, :, 0]
        return SlotKV(keys, values, self._slots, self._width)

    def recur(self, layer: int, keep: Tensor, new: Tensor) -> Tensor:
        states = self._target["target_states"][layer, :, 0]
        return advance_slots(states, self._slots, self._positions, keep[:, 0], new[:, 0])[:, None]
