"""Attention over rows of different length without padding: C++ operators, or PyTorch where they cannot be built.

The operators (attention.cpp) are compiled at first use into the user's cache, or beforehand next to this file by
`python -m model.kernels`. Where there is no compiler, `attend_slots` and `attend_packed` are PyTorch functions with the
same result but for rounding, which pad and need finite numbers in all of the arena. `load` says which it is. For
inference: there are no gradients.
"""

import functools
import hashlib
import logging
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import platformdirs
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

logger = logging.getLogger(__name__)

_COMPILER_SECONDS: Final = 600

_SOURCE: Final = Path(__file__).with_name("attention.cpp")
# Threads where the compiler brings OpenMP, as PyTorch's own; nothing for errno and traps. Only what is marked is
# summed in another order than it is written in, and in the same one every time.
_OPENMP: Final = "-fopenmp" if sys.platform == "linux" else "-fopenmp-simd"
_FLAGS: Final = ["-std=c++20", "-O3", _OPENMP, "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC"]


@functools.cache
def load() -> bool:
    """Whether the operators are there, after building them if need be; once a process."""
    try:
        built = Path(__file__).with_name(_file_name())
        if not built.exists():
            built = build(platformdirs.user_cache_path("dragoman"))
        torch.ops.load_library(built)  # type: ignore[no-untyped-call]
    except OSError as error:
        logger.warning("no C++ operators, attention is padded: %s", error.__cause__ or error)
        return False
    logger.info("C++ operators: %s", built)
    return True


def build(directory: Path) -> Path:
    """Compile into `directory`, unless it was done before; returns the library.

    Raises OSError where there is no compiler, or no place to write, or where it fails; a failure is remembered, so
    that an engine that starts again does not wait for the next one.
    """
    built = directory / _file_name()
    failed = built.with_suffix(".failed")
    if built.exists():
        return built
    if not directory.is_absolute():
        raise NotADirectoryError(f"{directory} is no place for a cache: is there a home directory?")
    if failed.exists():
        raise OSError(f"{failed.read_text(encoding='utf-8')} (to try again, remove {failed})")
    compiler = shutil.which("c++")
    if compiler is None:
        raise FileNotFoundError("there is no C++ compiler (c++)")
    directory.mkdir(parents=True, exist_ok=True)
    logger.info("compiling the C++ operators, once: %s", built)
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        partial = Path(scratch) / built.name
        installed = Path(torch.__file__).parent
        pytorch = [f"-I{installed / 'include'}", f"-L{installed / 'lib'}", "-lc10", "-ltorch_cpu"]
        command = [compiler, *_FLAGS, str(_SOURCE), "-o", str(partial), *pytorch]
        try:
            subprocess.run(
                command, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMPILER_SECONDS
            )
        except subprocess.SubprocessError as error:
            said = (getattr(error, "stderr", None) or b"").decode(errors="replace")
            errors = [line for line in said.splitlines() if "error" in line] or [str(error)]
            failed.write_text(f"{compiler}: {errors[0]}", encoding="utf-8")
            raise OSError(f"{compiler}: {errors[0]}") from None
        # Appears whole, also for replicas that start together and each compile.
        partial.replace(built)
    return built


def _file_name() -> str:
    """Of what this source, these flags and this PyTorch give on this kind of machine."""
    key = hashlib.sha256(_SOURCE.read_bytes() + repr([_FLAGS, torch.__version__, platform.machine()]).encode())
    return f"dragoman_kernels_{key.hexdigest()[:16]}.so"


def attend_slots(query: Tensor, keys: Tensor, values: Tensor, slots: Tensor, lengths: Tensor) -> Tensor:
    """Attention of one query a row over the first `lengths` positions of its slot.

    `query [rows, heads, head_dim]`; `keys`, `values [slots, heads, positions, head_dim]`; `slots [rows]` and
    `lengths [rows]` in int64, each length at least 1. Returns the shape of `query`.
    """
    if _fits(query) and load():
        attended: Tensor = torch.ops.dragoman.attend_slots(query.contiguous(), keys, values, slots, lengths)
        return attended
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
    """Attention within sequences that stand one behind the other, each query over all of its own sequence.

    `query`, `keys`, `values [tokens, heads, head_dim]`; sequence s is tokens `offsets[s]` to `offsets[s + 1]`.
    """
    if _fits(query) and load():
        packed = (query.contiguous(), keys.contiguous(), values.contiguous())
        attended: Tensor = torch.ops.dragoman.attend_packed(*packed, offsets)
        return attended
    lengths = offsets.diff()
    padded = [
        pad_sequence(list(torch.split(tensor, lengths.tolist())), batch_first=True).transpose(1, 2)
        for tensor in (query, keys, values)
    ]
    mask = _padding(lengths, padded[0].shape[2], query.dtype)
    rows = F.scaled_dot_product_attention(padded[0], padded[1], padded[2], attn_mask=mask).transpose(1, 2)
    return torch.cat([row[:length] for row, length in zip(rows, lengths.tolist(), strict=True)])


def _fits(query: Tensor) -> bool:
    """Whether it is what the operators are written for."""
    return query.device.type == "cpu" and query.dtype == torch.float32


def _padding(lengths: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    hidden = torch.arange(width, device=lengths.device) >= lengths[:, None]
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, -torch.inf)[:, None, None]
