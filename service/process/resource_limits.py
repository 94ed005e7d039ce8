"""Limits of this process' own resources."""

import contextlib
import resource


def limit_resource(kind: int, most: int) -> None:
    """Limit a resource (`resource.RLIMIT_...`) of this process, if its system can; a lower limit stays."""
    _, hard = resource.getrlimit(kind)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
