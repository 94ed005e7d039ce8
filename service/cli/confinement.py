"""The limits of the process that imports a checkpoint: a file can ask for any memory and any time."""

import resource
import signal
from typing import Final

from service.process.resource_limits import limit_resource

_GIGABYTE: Final = 1 << 30
_OWN_BYTES: Final = 4 * _GIGABYTE
"""Memory of Python and torch, with the libraries of a GPU."""
_COPIES: Final = 4
"""Copies of the weights: as read, as converted, in a wider type, and as written."""


def confine(seconds: int | None) -> None:
    """End this process after `seconds`, and let it take no more memory than its libraries need."""
    if seconds is not None:
        signal.alarm(seconds)
    confine_memory(0)


def confine_memory(source_bytes: int) -> None:
    """Limit the memory of this process to what an import of files of this size needs at most.

    Only Linux enforces it.
    """
    limit_resource(resource.RLIMIT_DATA, _OWN_BYTES + _COPIES * source_bytes)
