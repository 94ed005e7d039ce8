"""The limit of file descriptors, of which every connection, engine and open file takes one."""

import os
import resource
from typing import Final

_LEFT: Final = 32
"""Kept for engines, files, and connections that arrive before others have been closed."""


def is_among_the_last(descriptor: int) -> bool:
    """Return True for a high descriptor: the system assigns the lowest free number, so few are left."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return descriptor >= limit - _LEFT


def are_few_left() -> bool:
    """Return True if a new descriptor would be among the last."""
    try:
        descriptor = os.open(os.devnull, os.O_RDONLY)
    except OSError:
        return True
    os.close(descriptor)
    return is_among_the_last(descriptor)
