"""Marian's binary format, version 1, as Bergamot and Firefox have it: `model.*.intgemm.alphas.bin`, `*.intgemm8.bin`.

A version and a count; for each item the lengths of its name, shape and data, and its type; then all names, all shapes
and, after some padding, all data. Integers are little-endian.
"""

import math
import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import torch

from model.checkpoint_config import CheckpointError
from model.formats.marian.parameters import CONFIGURATION, Content

_VERSION: Final = 1
_FLOAT32, _QUANTISED = 0x404, 0x4101
_ALIGNMENT: Final = 256
"""Data of an item may be padded to a multiple of as many bytes."""


class _Item(NamedTuple):
    name: str
    kind: int
    shape: list[int]
    data: memoryview


def read_binary(path: Path) -> Content:
    """Raises `CheckpointError` for a file that is broken, or has types of numbers that are not supported."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            items = list(_Reader(content).items())
            return _content(items)
    except (OSError, ValueError, struct.error) as error:  # UnicodeDecodeError is a ValueError
        raise CheckpointError(f"{path}: {error}") from None


def _content(items: list[_Item]) -> Content:
    names = [item.name for item in items]
    problems = [f"{name} is there twice" for name in sorted({name for name in names if names.count(name) > 1})]
    content = Content("", {}, {})
    for item in items:
        try:
            if item.name == CONFIGURATION:
                content = content._replace(configuration=bytes(item.data).rstrip(b"\0").decode())
            else:
                _read(item, content)
        except ValueError as error:
            problems.append(f"{item.name} {error}")
    if problems:
        raise ValueError("; ".join(problems))
    return content


def _read(item: _Item, content: Content) -> None:
    if item.kind not in (_FLOAT32, _QUANTISED):
        raise ValueError(f"is of the type {item.kind:#x}, which is not supported")
    numbers = math.prod(item.shape)
    is_quantised = item.kind == _QUANTISED
    needed = numbers + 4 if is_quantised else 4 * numbers
    if min(item.shape, default=0) < 1 or not needed <= len(item.data) <= -(-needed // _ALIGNMENT) * _ALIGNMENT:
        raise ValueError(f"has the shape {item.shape} and {len(item.data)} bytes")
    data = bytearray(item.data[:needed])
    if not is_quantised:
        content.parameters[item.name] = torch.frombuffer(data, dtype=torch.float32).view(item.shape)
        return
    [multiplier] = struct.unpack_from("<f", data, numbers)
    if not (math.isfinite(multiplier) and multiplier > 0):
        raise ValueError(f"has the multiplier {multiplier}")
    values = torch.frombuffer(data, dtype=torch.int8, count=numbers)
    # Matrices are stored transposed, except for embeddings.
    is_table = item.name.endswith("Wemb") or len(item.shape) != 2
    content.parameters[item.name] = values.view(item.shape if is_table else item.shape[::-1])
    content.multipliers[item.name] = multiplier


class _Reader:
    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        self._place = 0

    def items(self) -> Iterator[_Item]:
        [version, count] = self._numbers("Q", 2)
        if version != _VERSION:
            raise ValueError(f"is not a Marian model of a known version: {version}")
        headers = [self._numbers("Q", 4) for _ in range(count)]
        names = [self._bytes(length).removesuffix(b"\0").decode() for length, *_ in headers]
        shapes = [self._numbers("i", dimensions) for _, _, dimensions, _ in headers]
        self._bytes(*self._numbers("Q", 1))
        for (_, kind, _, length), name, shape in zip(headers, names, shapes, strict=True):
            yield _Item(name, kind, shape, memoryview(self._bytes(length)))
        if self._place != len(self._content):
            raise ValueError(f"{len(self._content) - self._place} bytes are left over")

    def _numbers(self, kind: str, count: int) -> list[int]:
        if count > len(self._content):
            raise ValueError("ends too early")
        form = f"<{count}{kind}"
        return list(struct.unpack(form, self._bytes(struct.calcsize(form))))

    def _bytes(self, count: int) -> bytes:
        end = self._place + count
        if end > len(self._content):
            raise ValueError("ends too early")
        read = self._content[self._place : end]
        self._place = end
        return read
