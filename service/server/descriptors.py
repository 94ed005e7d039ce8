"""The limit of file descriptors, of which every connection, engine and open file takes one."""

import os
import resource
from typing import Final

from service.settings import UnusableSettingError

DESCRIPTORS_LEFT: Final = 32
"""Kept for engines, files, and connections that arrive before others have been closed."""
_OWN: Final = 48  # libraries, key files and sockets; an idle server with a model uses about half of them
_PER_ENGINE: Final = 4
_LEAST_CONNECTIONS: Final = 16


def check_descriptors(engines: int) -> None:
    """Raise `UnusableSettingError` if so few files may be open that streams would be lost."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    least = _OWN + _PER_ENGINE * engines + DESCRIPTORS_LEFT + _LEAST_CONNECTIONS
    if limit < least:
        engines_text = "1 engine" if engines == 1 else f"{engines} engines"
        raise UnusableSettingError(
            f"ulimit -n: only {limit} files may be open, and a server with {engines_text} needs {least} at least; "
            "each connection takes one more"
        )


def is_among_the_last(descriptor: int) -> bool:
    """Return True for a high descriptor: the system assigns the lowest free number, so few are left."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return descriptor >= limit - DESCRIPTORS_LEFT


def are_few_left() -> bool:
    """Return True if a new descriptor would be among the last."""
    try:
        descriptor = os.open(os.devnull, os.O_RDONLY)
    except OSError:
        return True
    os.close(descriptor)
    return is_among_the_last(descriptor)
