"""Operators that PyTorch has no fast version of, above all attention without padding: in C++, else in PyTorch.

The wheel brings the operators compiled; a checkout compiles them at first use into the user's cache. Where there is no
compiler, the functions here do the same in PyTorch, with the same result apart from rounding; attention then pads, and
needs finite numbers in all of the buffer. `load` returns which. For inference: there are no gradients. With the
operators comes the int8 transformer of model/cpp_transformer.py.
"""

import functools
import logging
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from model import topk
from model.kernels import library
from model.kernels.compiler import ADVICE, VARIANTS, CompilerError, build, file_name
from model.topk import Extensions
from model.user_cache import user_cache

logger = logging.getLogger(__name__)


@functools.cache
def load() -> bool:
    """Return True if the operators are there, after building them if need be; once a process."""
    try:
        built = _load()
    except OSError as error:
        reason = error.__cause__ or error
        logger.warning("no C++ operators, which makes translation 6 to 14 times slower: %s; %s", reason, ADVICE)
        return False
    used = library.variants()[0]
    logger.info("C++ operators for %s: %s", used, built)
    if used == "baseline" and len(VARIANTS) > 1:
        missing = list(VARIANTS)[-2]
        logger.warning("this processor has no %s, which makes translation several times slower", missing)
    return True


def _load() -> Path:
    """Load the library that came with the package, else one that is built. Raises OSError."""
    brought = Path(__file__).with_name(file_name())
    if brought.exists():
        library.load(brought)
        return brought
    # The cache cannot be written where the home directory is read-only, and is nowhere without one.
    private = Path(tempfile.gettempdir()) / f"dragoman-{os.getuid()}"
    try:
        library.load(built := build(user_cache()))
    except CompilerError:
        raise
    except OSError as error:
        logger.info("the operators go into %s: %s", private, error)
        library.load(built := build(private, private=True))
    return built


def choose(variant: str) -> None:
    """Use this variant of the operators instead of the best one. Raises RuntimeError if it does not run here."""
    available = library.variants() if load() else []
    if variant not in available:
        raise RuntimeError(f"C++ operators for {variant} do not run here; {', '.join(available) or 'none'} do")
    library.choose_variant(variant)


def serves(tensor: Tensor) -> bool:
    """Return True if the operators are there and support such a tensor."""
    return tensor.device.type == "cpu" and tensor.dtype == torch.float32 and load()


def attend_slots(query: Tensor, keys: Tensor, values: Tensor, slots: Tensor, lengths: Tensor) -> Tensor:
    """Attention of one query a row over the first `lengths` positions of its slot.

    `query [rows, heads, head_dim]`; `keys`, `values [slots, heads, positions, head_dim]`; `slots [rows]` and
    `lengths [rows]` in int64, each length at least 1. Returns the shape of `query`.
    """
    if serves(query):
        return library.attend_slots(query.contiguous(), keys, values, slots, lengths)
    width = int(lengths.max())
    mask = _padding(lengths, width, query.dtype)
    # While the queue is full there are no holes among the slots: then nothing is copied.
    dense = torch.equal(slots, torch.arange(len(slots), device=slots.device))
    chosen = slice(0, len(slots)) if dense else slots
    rows = F.scaled_dot_product_attention(
        query[:, :, None], keys[chosen, :, :width], values[chosen, :, :width], attn_mask=mask
    )
    return rows[:, :, 0]


def attend_packed(query: Tensor, keys: Tensor, values: Tensor, offsets: Tensor) -> Tensor:
    """Attention within sequences that stand one after the other, each query over all of its own sequence.

    `query`, `keys`, `values [tokens, heads, head_dim]`; sequence s is tokens `offsets[s]` to `offsets[s + 1]`.
    """
    if serves(query):
        packed = (query.contiguous(), keys.contiguous(), values.contiguous())
        return library.attend_packed(*packed, offsets)
    lengths = offsets.diff()
    padded = [
        pad_sequence(list(torch.split(tensor, lengths.tolist())), batch_first=True).transpose(1, 2)
        for tensor in (query, keys, values)
    ]
    mask = _padding(lengths, padded[0].shape[2], query.dtype)
    rows = F.scaled_dot_product_attention(padded[0], padded[1], padded[2], attn_mask=mask).transpose(1, 2)
    return torch.cat([row[:length] for row, length in zip(rows, lengths.tolist(), strict=True)])


def best_extensions(logits: Tensor, totals: Tensor, sizes: Sequence[int], count: int) -> Extensions:
    """Return the `count` best extensions of each beam; beams have `sizes` rows, one beam after the other.

    `logits [rows, vocab]` stand for log-probabilities, which are added to `totals [rows]`. Of equal sums the earlier
    row's come first, and of a row the more probable ones, then the lower tokens.
    """
    if serves(logits):
        return Extensions(*library.best_extensions(logits.contiguous(), totals, sizes, count))
    highest = logits.amax(dim=-1) - logits.logsumexp(dim=-1)
    beams = topk.members(len(logits), sizes).to(logits.device)
    return topk.best_extensions(logits, highest, totals, beams, count)


def copy_slots(buffer: Tensor, copies: Tensor) -> None:
    """Copy positions between slots of `buffer [layers, slots, heads, positions, head_dim]`, one copy after the other.

    `copies [copies, 3]` are (from slot, to slot, positions) in int64.
    """
    if buffer.device.type == "cpu" and load():  # bytes, of any type
        library.copy_slots(buffer, copies)
        return
    for origin, destination, positions in copies.tolist():
        buffer[:, destination, :, :positions] = buffer[:, origin, :, :positions]


def _padding(lengths: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    hidden = torch.arange(width, device=lengths.device) >= lengths[:, None]
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, -torch.inf)[:, None, None]
