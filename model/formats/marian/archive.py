"""Marian's `model.npz`: a zip archive with an array of NumPy's for each parameter. Pickled objects are refused."""

import zipfile
import zlib
from pathlib import Path

import numpy
import torch

from model.checkpoint_config import CheckpointError
from model.formats.marian.parameters import CONFIGURATION, Content
from model.source_files import DEFAULT_MAX_MEGABYTES, MEGABYTE, check_expansion

_FLOATS = ("float16", "float32")


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
