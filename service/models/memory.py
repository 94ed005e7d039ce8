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
_SIZE: Final = re.compile(r"^Rss(Anon|File):\s*([0-9]+) kB$", re.MULTILINE)
_EMPTY_ENGINE: Final = 300 * MEGABYTE
"""Python, PyTorch and its libraries, before there is a model."""


def resident_bytes(parent: int | None, forks: Iterable[int]) -> int:
    """Of a process and its forks, which may be gone by now; 0 where there is no /proc of Linux.

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
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0, 0
    kilobytes = {name: int(size) for name, size in _SIZE.findall(status)}  # none of a process that is ending
    return 1024 * kilobytes.get("Anon", 0), 1024 * kilobytes.get("File", 0)


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
        raise CheckpointError(f"{path} is not a file of safetensors") from None
    return engines * _EMPTY_ENGINE + _FLOAT32 * parameters
