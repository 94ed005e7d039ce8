"""What engines take of the machine's memory, measured and estimated."""

import json
import re
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
    """Of processes that may be gone by now, what they share counted once; 0 where there is no /proc of Linux."""
    return sum(map(_resident_bytes, pids))


def _resident_bytes(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    # A page that several processes have counts in each for its part of it. A process that is ending has none.
    found = re.search(r"^Pss: *([0-9]+) kB$", fields, re.MULTILINE)
    return 1024 * int(found[1]) if found else 0


def estimated_bytes(checkpoint: Path, engines: int) -> int:
    """What a model will take that was never loaded: its weights at first in float32, which its engines share.

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
    return engines * _EMPTY_ENGINE + _FLOAT32 * parameters
