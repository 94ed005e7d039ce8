"""The format of `model.bin`, version 6 and before: a header, then every variable as name, shape, type and bytes, then
aliases. Integers are little-endian; strings carry their length.
"""

import math
import mmap
import struct
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from model.checkpoint_config import CheckpointError
from model.formats.ctranslate2 import legacy

_VERSIONS: Final = range(4, 7)
_SETTINGS_APART: Final = 6
_SIDES_APART: Final = 5
_TYPES: Final = [torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16]


class Content(NamedTuple):
    """Variables as the newest version of the format names them."""

    variables: dict[str, Tensor]
    settings: dict[str, Any]
    """Options of config.json, in versions that have them in this file instead."""


def read_content(path: Path) -> Content:
    """Variables by their names. Raises `CheckpointError`."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _Reader(content).content()
    except (OSError, ValueError, struct.error, UnicodeDecodeError, RuntimeError) as error:
        raise CheckpointError(f"{path}: {error}") from None


class _Reader:
    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        self._place = 0

    def content(self) -> Content:
        version = self._number("<I")
        if version not in _VERSIONS:
            raise ValueError(f"is not a CTranslate2 model of a known version: {version}")
        name = self._string()
        if name != "TransformerSpec":
            raise ValueError(f"is a {name}, not an encoder-decoder transformer")
        revision = self._number("<I")  # of the specification: the names of the variables
        found = {self._string(): self._tensor() for _ in range(self._number("<I"))}
        for _ in range(self._number("<I")):
            alias = self._string()
            found[alias] = found[self._string()]
        if self._place != len(self._content):
            raise ValueError(f"{len(self._content) - self._place} bytes are left over")
        if revision < _SIDES_APART:
            found = legacy.moved(found)
        return Content(found, legacy.settings(found) if version < _SETTINGS_APART else {})

    def _tensor(self) -> Tensor:
        shape = [self._number("<I") for _ in range(self._number("<B"))]
        kind, size = self._number("<B"), self._number("<I")
        if kind >= len(_TYPES):
            raise ValueError(f"type {kind} is not known")
        if math.prod(shape) * _TYPES[kind].itemsize != size:
            raise ValueError(f"a variable of shape {shape} has {size} bytes")
        return torch.frombuffer(bytearray(self._bytes(size)), dtype=_TYPES[kind]).view(shape)

    def _string(self) -> str:
        return self._bytes(self._number("<H")).decode().removesuffix("\0")

    def _number(self, kind: str) -> int:
        [value] = struct.unpack(kind, self._bytes(struct.calcsize(kind)))
        return int(value)

    def _bytes(self, count: int) -> bytes:
        end = self._place + count
        if end > len(self._content):
            raise ValueError("ends too early")
        read = self._content[self._place : end]
        self._place = end
        return read
