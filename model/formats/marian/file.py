"""Marian's model files: `model.npz`, and the binary ones of Bergamot and Firefox (`*.intgemm.alphas.bin`).

The archive has an array of NumPy's for each parameter; pickled objects are refused.
"""

import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy
import torch
from torch import Tensor

from model.checkpoint_config import CheckpointError
from model.formats.checked_source import BinaryContent, open_binary
from model.source_files import DEFAULT_MAX_MEGABYTES, MEGABYTE, check_expansion

CONFIGURATION: Final = "special:model.yml"
"""The item that has the model's options instead of numbers."""
_FLOATS: Final = ("float16", "float32")
_VERSION: Final = 1
_FLOAT32, _QUANTISED = 0x404, 0x4101
_ALIGNMENT: Final = 256
"""Data of an item may be padded to a multiple of as many bytes."""


class Content(NamedTuple):
    """A model file."""

    configuration: str
    parameters: dict[str, Tensor]
    """float32 `[in, out]`, or int8 `[out, in]`; embeddings are `[words, d_model]` in both."""
    multipliers: dict[str, float]
    """The factors by which the numbers of parameters were multiplied before they became int8."""


def read_archive(path: Path) -> Content:
    """Raises `CheckpointError` for a file that is broken, or has types of numbers that are not supported."""
    problems: list[str] = []
    configuration, parameters = "", dict[str, torch.Tensor]()
    try:
        with zipfile.ZipFile(path) as archive:
            check_expansion(path, archive.infolist(), DEFAULT_MAX_MEGABYTES * MEGABYTE)
        with numpy.load(path, allow_pickle=False) as arrays:
            for name in arrays.files:
                try:
                    values = arrays[name]
                except ValueError as error:  # pickled, of a wrong shape, or no array
                    problems.append(f"{name}: {str(error).partition(chr(10))[0]}")
                    continue
                if not isinstance(values, numpy.ndarray):
                    problems.append(f"{name} is not an array")
                elif name == CONFIGURATION:
                    configuration = values.tobytes().rstrip(b"\0").decode()
                elif values.dtype.name not in _FLOATS:
                    problems.append(f"{name} is {values.dtype}, which is not supported")
                else:
                    parameters[name] = torch.from_numpy(values.astype("float32"))
    except CheckpointError:
        raise
    except (OSError, ValueError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise CheckpointError(f"{path}: is not an archive of NumPy's, or a damaged one: {error}") from None
    if problems:
        raise CheckpointError(f"{path}: {'; '.join(sorted(problems))}")
    return Content(configuration, parameters, {})


class _Item(NamedTuple):
    name: str
    kind: int
    shape: list[int]
    data: memoryview


def read_binary(path: Path) -> Content:
    """Read version 1 of the binary format.

    A version and a count; for each item the lengths of its name, shape and data, and its type; then all names, all
    shapes and, after some padding, all data. Raises `CheckpointError` for a file that is broken, or has types of
    numbers that are not supported.
    """
    with open_binary(path) as content:
        return _content(list(_items(content)))


def _items(content: BinaryContent) -> Iterator[_Item]:
    [version, count] = content.numbers("Q", 2)
    if version != _VERSION:
        raise ValueError(f"is not a Marian model of a known version: {version}")
    headers = [content.numbers("Q", 4) for _ in range(count)]
    names = [content.bytes(length).removesuffix(b"\0").decode() for length, *_ in headers]
    shapes = [content.numbers("i", dimensions) for _, _, dimensions, _ in headers]
    content.bytes(content.number("Q"))
    for (_, kind, _, length), name, shape in zip(headers, names, shapes, strict=True):
        yield _Item(name, kind, shape, memoryview(content.bytes(length)))
    content.check_end()


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
