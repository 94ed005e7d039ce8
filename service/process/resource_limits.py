"""Limits of this process's own resources."""

import contextlib
import resource


def limit_resource(kind: int, most: int) -> None:
    """Limit a resource (`resource.RLIMIT_...`) of this process, if its system can; a lower limit stays."""
    soft, hard = resource.getrlimit(kind)
    limits = [each for each in (soft, hard) if each != resource.RLIM_INFINITY]
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(kind, (min([most, *limits]), hard))
