"""Operators that PyTorch has no fast version of: in C++, else in PyTorch.

The wheel brings the operators compiled; a checkout compiles them at first use into the user's cache. Where there is no
compiler, the functions here do the same in PyTorch, with the same result apart from rounding. `load` returns which. For
inference: there are no gradients. With the operators comes the int8 transformer of model/cpp_transformer.py.
"""

import functools
import logging
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

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
