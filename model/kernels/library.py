"""The library of C++ operators, called by ctypes: its interface has no PyTorch in it, so it fits every version of that.

`interface.cpp` documents the functions, `interface.h` has the structs once more, field by field. Tensors are checked
here, numbers there. Every call raises RuntimeError where it fails.
"""

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int64, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

if TYPE_CHECKING:
    from model.decode_step import Outputs, PlainRows, Queries
    from model.topk import Beams


class Shape(Structure):
    """A transformer's numbers and truth values."""

    _fields_ = (
        *(
            (name, c_int64)
            for name in "d_model num_heads ffn_dim encoder_layers decoder_layers alignment_layer slots "
            "target_positions pre_norm recurrent scale_embedding shortlist activation".split()
        ),
        ("norm_epsilon", c_double),
    )


class Weight(Structure):
    _fields_ = (("name", c_char_p), ("data", c_void_p), ("rows", c_int64), ("columns", c_int64), ("bytes", c_int64))


class Buffer(Structure):
    """A buffer of a `SlotCache`."""

    _fields_ = (("data", c_void_p), *((name, c_int64) for name in "layers slots heads positions width bytes".split()))


class Buffers(Structure):
    _fields_ = tuple((name, Buffer) for name in "source_keys source_values target target_values".split())


class Batch(Structure):
    """The arguments of a decode step."""

    _fields_ = (
        ("rows", c_int64),
        *((name, c_void_p) for name in "tokens positions slots source_slots source_lengths".split()),
        *((name, c_int64) for name in "logits alignment self_attention".split()),
        *((name, c_void_p) for name in "logit_rows alignment_rows self_attention_rows".split()),
        ("beams", c_int64),
        ("beam_rows", c_void_p),
        ("totals", c_void_p),
        ("plain", c_int64),
        ("sampled", c_int64),
        *((name, c_void_p) for name in "rooms temperatures top_ks top_ps seeds".split()),
        ("steps", c_int64),
        ("eos_id", c_int64),
        ("seconds", c_double),
    )


class Scores(Structure):
    """The places of a decode step's results."""

    _fields_ = (
        *((name, c_void_p) for name in "best logprobs counts logits alignment self_attention".split()),
        *((name, c_int64) for name in "alignment_width self_attention_width extensions".split()),
        *((name, c_void_p) for name in "parents tokens extension_logprobs sums".split()),
    )


_A: Final = c_void_p
_N: Final = c_int64
_FUNCTIONS: Final[dict[str, tuple[Any, list[Any]]]] = {
    "error": (c_char_p, []),
    "variants": (c_char_p, []),
    "choose_variant": (_N, [c_char_p]),
    "lend_threads": (_N, [_A, _N, _N, _N]),
    "usable_threads": (_N, [_N]),
    "best_extensions": (_N, [_A] * 3 + [_N] * 4 + [_A] * 4 + [_N]),
    "sample": (_N, [_A] * 5 + [_N] * 2 + [_A] * 2 + [_N]),
    "copy_slots": (_N, [POINTER(Buffer), _A, _N]),
    "transformer_new": (_A, [POINTER(Shape), POINTER(Weight), _N, POINTER(Buffers)]),
    "transformer_delete": (None, [_A]),
    "transformer_encode": (_N, [_A] * 3 + [_N] + [_A] * 2 + [_N, _A, _N, _N]),
    "transformer_decode": (_N, [_A, POINTER(Batch), POINTER(Scores), _N]),
}
"""The type of each function's result, and those of its arguments."""

_loaded: dict[str, Any] = {}
_COLUMNS: Final = tuple(f"int8: {name}" for name, *_ in Batch._fields_[1:6])
"""The names of the columns of a step's queries in messages."""
_lent: list[Tensor] = []
"""Tensors that the library may read at any time, and that are therefore kept."""


def load(path: Path) -> None:
    """Load the library. Raises OSError where the system cannot."""
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _FUNCTIONS.items():
        function = library[f"dragoman_{name}"]
        function.restype, function.argtypes = result, arguments
        _loaded[name] = function


def call(name: str, *arguments: Any) -> int:
    """Call a function whose result is negative where it fails."""
    result: int = _loaded[name](*arguments)
    if result < 0:
        raise RuntimeError(_loaded["error"]().decode())
    return result


def pointer(tensor: Tensor, dtype: torch.dtype, count: int, name: str) -> int:
    """Return the address of a contiguous tensor of `count` numbers; raises RuntimeError for another."""
    if tensor.dtype is not dtype or tensor.numel() != count or not tensor.is_contiguous():
        kind = str(dtype).removeprefix("torch.")
        raise RuntimeError(f"{name} must be {count} contiguous {kind} numbers")
    return tensor.data_ptr()


def variants() -> list[str]:
    """Return the variants that this processor can run, the best first; one has to be there."""
    names: str = _loaded["variants"]().decode()
    return names.split()


def choose_variant(name: str) -> None:
    call("choose_variant", name.encode())


def lend_threads(idle_since: Tensor, own: int, threads: int) -> None:
    """Let this process, engine `own` of some, use its share of `threads`; `idle_since` is int64 `[engines]`."""
    address = pointer(idle_since, torch.int64, len(idle_since), "lend_threads: idle_since")
    call("lend_threads", address, len(idle_since), own, threads)
    _lent[:] = [idle_since]


def usable_threads() -> int:
    """Return how many threads a call would use now, lent ones among them."""
    return call("usable_threads", torch.get_num_threads())


def best_extensions(logits: Tensor, totals: Tensor, sizes: Sequence[int], count: int) -> tuple[Tensor, ...]:
    rows, vocab = logits.shape
    parents, tokens = (torch.empty(len(sizes), count, dtype=torch.int64) for _ in range(2))
    logprobs, sums = (torch.empty(len(sizes), count) for _ in range(2))
    call(
        "best_extensions",
        pointer(logits, torch.float32, rows * vocab, "best_extensions: logits"),
        pointer(totals, torch.float32, rows, "best_extensions: totals"),
        numbers(sizes),
        *(rows, vocab, len(sizes), count),
        *(each.data_ptr() for each in (parents, tokens, logprobs, sums)),
        torch.get_num_threads(),
    )
    return parents, tokens, logprobs, sums


def sample(
    logits: Tensor, temperatures: Tensor, top_ks: Tensor, top_ps: Tensor, noise: Tensor
) -> tuple[Tensor, Tensor]:
    rows, vocab = logits.shape
    tokens, logprobs = torch.empty(rows, dtype=torch.int64), torch.empty(rows)
    call(
        "sample",
        pointer(logits, torch.float32, rows * vocab, "sample: logits"),
        pointer(temperatures, torch.float32, rows, "sample: temperatures"),
        pointer(top_ks, torch.int64, rows, "sample: top_ks"),
        pointer(top_ps, torch.float32, rows, "sample: top_ps"),
        pointer(noise, torch.int64, rows, "sample: noise"),
        *(rows, vocab, tokens.data_ptr(), logprobs.data_ptr()),
        torch.get_num_threads(),
    )
    return tokens, logprobs


def copy_slots(buffer: Tensor, copies: Tensor) -> None:
    count = len(copies)
    call("copy_slots", byref(buffer_of(buffer)), pointer(copies, torch.int64, 3 * count, "copy_slots: copies"), count)


def buffer_of(tensor: Tensor) -> Buffer:
    """Describe a buffer of a `SlotCache`."""
    return Buffer(pointer(tensor, tensor.dtype, tensor.numel(), "a buffer"), *tensor.shape, tensor.element_size())


def numbers(values: Sequence[int]) -> Any:
    """Return whole numbers as an array; None if there are none."""
    return (c_int64 * len(values))(*values) if values else None


def batch_of(
    queries: "Queries", outputs: "Outputs", beams: "Beams", plain: "PlainRows", block: tuple[int, int, float]
) -> tuple[Batch, list[Any]]:
    """Return the batch, and lists that it points into, as into the tensors; raises RuntimeError for other tensors.

    `block` is the number of steps, the id of a hypothesis's end, and the seconds.
    """
    rows, plain_rows, beam_count = queries.tokens.numel(), plain.rooms.numel(), beams.rows.shape[0]
    sampled = plain_rows if plain.temperatures.numel() else 0
    lists = [numbers(each) for each in outputs]
    batch = Batch(
        rows,
        *(pointer(each, torch.int64, rows, name) for each, name in zip(queries, _COLUMNS, strict=True)),
        *map(len, outputs),
        *(ctypes.addressof(each) if each else None for each in lists),
        beam_count,
        pointer(beams.rows, torch.int64, 3 * beam_count, "int8: beams"),
        pointer(beams.totals, torch.float32, rows if beam_count else 0, "int8: totals"),
        plain_rows,
        sampled,
        pointer(plain.rooms, torch.int64, plain_rows, "int8: rooms"),
        pointer(plain.temperatures, torch.float32, sampled, "int8: temperatures"),
        pointer(plain.top_ks, torch.int64, sampled, "int8: top_ks"),
        pointer(plain.top_ps, torch.float32, sampled, "int8: top_ps"),
        pointer(plain.seeds, torch.int64, sampled, "int8: seeds"),
        *block,
    )
    return batch, lists


def new_transformer(shape: Shape, weights: dict[str, Tensor], buffers: dict[str, Tensor]) -> int:
    """Build a transformer; the caller keeps all weights that are not int8, and the buffers, for as long as it lives."""
    described = [
        Weight(
            name.encode(),
            pointer(tensor, tensor.dtype, tensor.numel(), name),
            tensor.shape[0] if tensor.dim() == 2 else 1,
            tensor.shape[-1],
            tensor.element_size(),
        )
        for name, tensor in weights.items()
    ]
    source = (buffer_of(buffers["source_keys"]), buffer_of(buffers["source_values"]))
    target = tuple(buffer_of(each) for name, each in buffers.items() if name.startswith("target"))
    array = (Weight * len(described))(*described)
    handle: int | None = _loaded["transformer_new"](
        byref(shape), array, len(described), byref(Buffers(*source, *target))
    )
    if handle is None:
        raise RuntimeError(_loaded["error"]().decode())
    return handle


def delete_transformer(handle: int) -> None:
    _loaded["transformer_delete"](handle)
