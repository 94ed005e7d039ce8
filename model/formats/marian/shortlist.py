"""Marian's binary lexical shortlist, as Bergamot and Firefox have it: `lex.*.bin`.

Six uint64: a signature, a checksum, the number of first words that every translation can have, the limit of words for
each source word, and the numbers of offsets and of words; then the offsets (uint64) and the words (uint32). All are
little-endian.
"""

import struct
from pathlib import Path
from typing import Final, NamedTuple

import numpy
import torch

from model.checkpoint_config import CheckpointError
from model.config import ModelConfig
from model.formats.checked_source import read_bytes
from model.shortlist import Shortlist

_SIGNATURE: Final = 0xF11A48D5013417F5
_HEADER: Final = struct.Struct("<6Q")
_UNCHECKED_BYTES: Final = 16
"""The signature and the checksum itself."""


def find(directory: Path) -> Path | None:
    """Return the shortlist's file; None for a directory without. Raises `CheckpointError` for several."""
    found = sorted(directory.glob("lex*.bin"))
    if len(found) > 1:
        raise CheckpointError(f"{directory}: has several shortlists: {', '.join(path.name for path in found)}")
    return found[0] if found else None


def read_shortlist(path: Path, config: ModelConfig) -> Shortlist:
    """Read the shortlist of a model with this configuration. Raises `CheckpointError`."""
    try:
        table = _table(read_bytes(path))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}") from None
    source_words = config.source_vocab_size or config.vocab_size
    missing = source_words + 1 - len(table.offsets)
    if missing < 0:
        raise CheckpointError(f"{path}: has {len(table.offsets) - 1} source words, the model {source_words}")
    # Words after the last that has any.
    offsets = numpy.pad(table.offsets, (0, missing), mode="edge")
    words = table.words
    if config.source_vocab_size is None:
        # What is written alike on both sides can be copied.
        own = numpy.arange(source_words)
        words, offsets = numpy.insert(words, offsets[1:], own), offsets + numpy.arange(source_words + 1)
    first = min(table.first, config.vocab_size - 1)
    shortlist = Shortlist(
        always=torch.unique(torch.tensor([*range(first), config.eos_id], dtype=torch.int32)),
        offsets=torch.from_numpy(offsets),
        words=torch.from_numpy(words.astype("int32")),
    )
    if problems := shortlist.problems(source_words, config.vocab_size):
        raise CheckpointError(f"{path}: {'; '.join(problems)}")
    return shortlist


class _Table(NamedTuple):
    first: int
    offsets: numpy.ndarray
    words: numpy.ndarray


def _table(content: bytes) -> _Table:
    """Raises `ValueError` for a file that is broken."""
    if len(content) < _HEADER.size:
        raise ValueError("is not a lexical shortlist: it ends too early")
    signature, checksum, first, _, offsets, words = _HEADER.unpack_from(content)
    if signature != _SIGNATURE:
        raise ValueError("is not a lexical shortlist in Marian's binary format")
    expected = _HEADER.size + 8 * offsets + 4 * words
    if len(content) != expected or not offsets:
        raise ValueError(f"has {len(content)} bytes, its header says {expected}")
    if _checksum(content) != checksum:
        raise ValueError("its checksum is wrong: it is damaged")
    places = numpy.frombuffer(content, "<u8", offsets, _HEADER.size)
    found = numpy.frombuffer(content, "<u4", words, _HEADER.size + 8 * offsets)
    if places[0] != 0 or places[-1] != words or (places[1:] < places[:-1]).any():
        raise ValueError(f"its offsets do not cover its {words} words")
    return _Table(first, places.astype("int64"), found.astype("int64"))


def _checksum(content: bytes) -> int:
    """Combine all whole uint64 after the checksum, as `boost::hash_combine` does."""
    whole = (len(content) - _UNCHECKED_BYTES) // 8
    seed = 0
    for number in numpy.frombuffer(content, "<u8", whole, _UNCHECKED_BYTES).tolist():
        seed ^= (number + 0x9E3779B9 + (seed << 6) + (seed >> 2)) & 0xFFFFFFFFFFFFFFFF
    return seed
