"""The order of version numbers, as the indexes write them."""

import re


def version_key(version: str) -> tuple[int, ...]:
    """Return a key by which 1.10 comes after 1.9."""
    return tuple(map(int, re.findall(r"\d+", version)))
