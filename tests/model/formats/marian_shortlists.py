"""Small lexical shortlists in Marian's binary format."""

import struct
from collections.abc import Sequence
from typing import Final

FIRST, BEST = 5, 3
"""The words that every translation can have, and the limit of each source word's."""
_MASK: Final = 2**64 - 1


def some_lists(source_words: int, target_words: int) -> list[list[int]]:
    return [sorted({(7 * i) % target_words, (11 * i + 3) % target_words})[: i % BEST] for i in range(source_words)]


def shortlist_file(lists: Sequence[Sequence[int]], first: int = FIRST, *, end: int | None = None) -> bytes:
    """The file, with a checksum that is right; `end` replaces the last offset."""
    words = [word for each in lists for word in each]
    offsets = [0]
    for each in lists:
        offsets.append(offsets[-1] + len(each))
    if end is not None:
        offsets[-1] = end
    body = struct.pack("<4Q", first, BEST, len(offsets), len(words))
    body += struct.pack(f"<{len(offsets)}Q", *offsets) + struct.pack(f"<{len(words)}I", *words)
    checksum = 0
    for (number,) in struct.iter_unpack("<Q", body[: len(body) // 8 * 8]):
        checksum ^= (number + 0x9E3779B9 + (checksum << 6) + (checksum >> 2)) & _MASK
    return struct.pack("<2Q", 0xF11A48D5013417F5, checksum) + body
