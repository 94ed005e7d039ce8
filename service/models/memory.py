"""What engines take of the machine's memory, measured and estimated."""

import json
import os
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Final

from model.manifest import CheckpointError

MEGABYTE: Final = 1_000_000
_FLOAT32: Final = 4
_EMPTY_ENGINE: Final = 300 * MEGABYTE
"""Python, PyTorch and its libraries, before there is a model."""


def resident_bytes(pids: Iterable[int]) -> int:
    """Of processes that may be gone by now; 0 where there is no /proc."""
    return sum(map(_resident_bytes, pids))


def _resident_bytes(pid: int) -> int:
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def estimated_bytes(checkpoint: Path, engines: int) -> int:
    """What a model will take that was never loaded: each of its engines has all of its weights, at first in float32.

    Raises `CheckpointError`.
    """
    path = checkpoint / "model.safetensors"
    try:
        with path.open("rb") as file:
            # The format: how long the description of the tensors is, that, the tensors. To ask the library for it
            # would load NumPy or torch.
            length = int.from_bytes(file.read(8), "little")
            tensors = json.loads(file.read(min(length, path.stat().st_size)))
        parameters: int = sum(prod(each["shape"]) for name, each in tensors.items() if name != "__metadata__")
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None
    except (AttributeError, KeyError, TypeError, ValueError):
        raise CheckpointError(f"{path} is not a file of safetensors") from None
    return engines * (_EMPTY_ENGINE + _FLOAT32 * parameters)
