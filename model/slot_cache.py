"""The decoder's memory while it serves: keys, values and states of many requests, each in a slot of one buffer.

Knows nothing of requests; slots are row numbers here.
"""

import contextlib
import math
import mmap
from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from model.cache import KV, KeyValueView
from model.config import ModelConfig
from model.kernels import attend_slots, copy_slots
from model.recurrence import PLACES, advance_slots

_View = TypeVar("_View", bound=KeyValueView)


class SlotKV(NamedTuple):
    """The buffer of one layer, `[slots, heads, positions, head_dim]`, and the positions in it that each query sees.

    A query of row r looks at the first `lengths[r, query]` positions of slot `slots[r, query]`.
    """

    keys: Tensor
    values: Tensor
    slots: Tensor
    lengths: Tensor

    def attend(self, query: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
        assert mask is None
        assert not dropout
        queries = query.transpose(1, 2)
        mixed = attend_slots(
            queries.flatten(0, 1), self.keys, self.values, self.slots.flatten(), self.lengths.flatten()
        )
        return mixed.view_as(queries).transpose(1, 2)


class PaddedKV(NamedTuple):
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

    def attend(self, query: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
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
    last states instead. A slot keeps the values of its last user: each query sees exactly the positions that its own
    request wrote. Every number starts out finite, since hidden ones are multiplied by 0 where attention pads.
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

    def write_source(self, slots: Sequence[int], lengths: Sequence[int], source: Sequence[KV]) -> None:
        """Store what `Transformer.encode_packed` gave for sources of `lengths`, in their `slots`."""
        for layer, new in enumerate(source):
            for buffer, packed in zip(self._source, new, strict=True):
                for slot, each in zip(slots, torch.split(packed[0], list(lengths), dim=1), strict=True):
                    buffer[layer, slot, :, : each.shape[1]] = each

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

    def source(self, slots: Tensor, lengths: Tensor) -> list[SlotKV]:
        """Return the source of each query, one `SlotKV` a layer; `slots` and `lengths` are `[rows, queries]`."""
        return [SlotKV(keys, values, slots, lengths) for keys, values in zip(*self._source, strict=True)]

    def rows(self, slots: Tensor, positions: Tensor) -> "SlotRows[SlotKV]":
        """Return the cache of one decode call: queries at `positions`, in `slots`, both `[rows, queries]`."""
        lengths = positions + 1
        return SlotRows(self._target, slots, positions, lambda keys, values: SlotKV(keys, values, slots, lengths))

    def padded_source(self, slots: Tensor, width: int) -> list[PaddedKV]:
        """Return the source of each row, one `PaddedKV` a layer; `slots [rows]`, no source longer than `width`."""
        return [PaddedKV(keys, values, slots, width) for keys, values in zip(*self._source, strict=True)]

    def padded_rows(self, slots: Tensor, positions: Tensor, width: int) -> "SlotRows[PaddedKV]":
        """Return the cache of one decode call: one query a row, all at `positions` below `width`; both `[rows, 1]`."""
        own = slots[:, 0]
        return SlotRows(self._target, slots, positions, lambda keys, values: PaddedKV(keys, values, own, width))


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


class SlotRows(Generic[_View]):
    """Some rows of a `SlotCache` at some positions, as the decoder's `Cache` for one call.

    `view` makes what queries look at of a layer's keys and values.
    """

    def __init__(
        self,
        target: Mapping[str, Tensor],
        slots: Tensor,
        positions: Tensor,
        view: Callable[[Tensor, Tensor], _View],
    ) -> None:
        self._target = target
        self._slots = slots
        self._positions = positions
        self._view = view

    def update(self, layer: int, new: KV) -> _View:
        keys, values = self._target["target_keys"][layer], self._target["target_values"][layer]
        # Index tensors around a slice put [rows, queries] first, hence the transpose of the new K/V.
        keys[self._slots, :, self._positions] = new.keys.transpose(1, 2)
        values[self._slots, :, self._positions] = new.values.transpose(1, 2)
        return self._view(keys, values)

    def recur(self, layer: int, keep: Tensor, new: Tensor) -> Tensor:
        states = self._target["target_states"][layer, :, 0]
        rows = advance_slots(
            states, self._slots.flatten(), self._positions.flatten(), keep.flatten(0, 1), new.flatten(0, 1)
        )
        return rows.view_as(keep)
