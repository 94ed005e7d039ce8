"""What engines take of the machine's memory, measured and estimated."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

MEGABYTE: Final = 1_000_000
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
    """What a model will take that was never loaded: each of its engines holds all of its weights."""
    weights = sum(file.stat().st_size for file in checkpoint.glob("*.safetensors"))
    return engines * (_EMPTY_ENGINE + weights)
