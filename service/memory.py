"""Memory of the HTTP process, which takes texts and answers of megabytes for a moment, over and over."""

import ctypes
import gc
from typing import Final

# From glibc's malloc.h, and its own first threshold.
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 128 * 1024


def give_large_blocks_back() -> None:
    """From now on a large block that is freed goes back to the system at once; without effect where it does anyway.

    Left alone, glibc counts ever larger ones as small after each that was freed, and its heap grows by their holes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def settle() -> None:
    """What is there now stays: garbage collections need not look at it again."""
    gc.collect()
    gc.freeze()
