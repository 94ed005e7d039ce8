"""The memory of engines, measured and estimated."""

import json
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Final

import psutil

from model.checkpoint_config import CheckpointError

MEGABYTE: Final = 1_000_000
_FLOAT32: Final = 4
_EMPTY_ENGINE: Final = 30 * MEGABYTE
"""The memory of an engine's slots; Python and PyTorch are shared by all."""


def resident_bytes(parent: int | None, forks: Iterable[int], zygote: int | None = None) -> int:
    """Return the memory of a process and its forks, without that of its `zygote`; an ended process counts as 0.

    Shared memory counts once: mapped files are the same in all, and a fork's own memory is what exceeds its parent's.
    Pages that a fork has changed are missed; to count them, the system would have to inspect every page.
    """
    of_all, their_files = (0, 0) if zygote is None else _resident_bytes(zygote)
    shared, files = (of_all, 0) if parent is None else _resident_bytes(parent)
    own = 0
    for anonymous, mapped in map(_resident_bytes, forks):
        own += max(0, anonymous - shared)
        files = max(files, mapped)
    return max(0, shared - of_all) + own + max(0, files - their_files)


def _resident_bytes(pid: int) -> tuple[int, int]:
    """Return anonymous memory, and mapped files."""
    try:
        memory = psutil.Process(pid).memory_info()
    except (psutil.Error, OSError):  # for instance without a free file descriptor
        return 0, 0
    files = getattr(memory, "shared", 0)  # only Linux reports it
    return memory.rss - files, files


def estimated_bytes(checkpoint: Path, engines: int) -> int:
    """Estimate the memory of a model that was never loaded, from its weights, which are loaded in float32.

    Engines that are forks share the weights. Raises `CheckpointError`.
    """
    path = checkpoint / "model.safetensors"
    try:
        with path.open("rb") as file:
            # The format is: length of the header, header, tensors. The library would load NumPy or torch to read it.
            length = int.from_bytes(file.read(8), "little")
            tensors = json.loads(file.read(min(length, path.stat().st_size)))
        parameters: int = sum(prod(each["shape"]) for name, each in tensors.items() if name != "__metadata__")
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None
    except (AttributeError, KeyError, TypeError, ValueError):
        raise CheckpointError(f"{path} is damaged, or not a safetensors file") from None
    return engines * _EMPTY_ENGINE + _FLOAT32 * parameters
