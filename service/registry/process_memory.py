"""What engines take of the machine's memory, measured and estimated."""

import json
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Final

import psutil

from model.checkpoint_config import CheckpointError

MEGABYTE: Final = 1_000_000
_FLOAT32: Final = 4
_EMPTY_ENGINE: Final = 300 * MEGABYTE
"""Python, PyTorch and its libraries, before there is a model."""


def resident_bytes(parent: int | None, forks: Iterable[int]) -> int:
    """Of a process and its forks, which may be gone by now.

    What they share counts once: the files that they have mapped are the same, and what a fork has beyond its parent is
    its own. It may have a little more, in the place of what it has changed; to know that, the system would have to look
    at every page.
    """
    shared, files = _resident_bytes(parent) if parent is not None else (0, 0)
    own = 0
    for anonymous, mapped in map(_resident_bytes, forks):
        own += max(0, anonymous - shared)
        files = max(files, mapped)
    return shared + own + files


def _resident_bytes(pid: int) -> tuple[int, int]:
    """Anonymous memory, and files."""
    try:
        memory = psutil.Process(pid).memory_info()
    except (psutil.Error, OSError):  # without a descriptor that is free, say
        return 0, 0
    files = getattr(memory, "shared", 0)  # only Linux tells it
    return memory.rss - files, files


def estimated_bytes(checkpoint: Path, engines: int) -> int:
    """What a model will take that was never loaded: its weights at first in float32.

    Its engines share them, where they are forks. Raises `CheckpointError`.
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
        raise CheckpointError(f"{path} is damaged, or no file of safetensors") from None
    return engines * _EMPTY_ENGINE + _FLOAT32 * parameters
