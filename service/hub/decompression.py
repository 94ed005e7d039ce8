"""Decompression of downloaded files, as the index says, within the size that it says."""

import gzip
import zlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, Final

import zstandard

from model.checkpoint_config import sha256_of
from service.hub.errors import TemporaryHubError

_CHUNK: Final = 1 << 20
_LARGEST: Final = 2_000_000_000
"""Limit for files whose decompressed size the index does not say."""

SUFFIXES: Final[Mapping[str, tuple[str, ...]]] = {".zst": (".zst", ".zstd"), ".gz": (".gz", ".gzip", ".x-gzip")}
"""Endings of file names and media types, by the suffix of the compression."""
_READERS: Final[Mapping[str, Callable[[IO[bytes]], AbstractContextManager[Any]]]] = {
    "": lambda file: file,
    ".zst": lambda file: zstandard.ZstdDecompressor().stream_reader(file),
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
}


def decompress(path: Path, output: Path, suffix: str, size: int | None, sha256: str | None) -> None:
    """Write the content of a file to another one, and check it. Raises `HubError`, and leaves no output then."""
    most = _LARGEST if size is None else size
    problem: str | None = None
    try:
        with path.open("rb") as packed, _READERS[suffix](packed) as content, output.open("wb") as target:
            while chunk := content.read(_CHUNK):
                target.write(chunk)
                if target.tell() > most:
                    problem = f"decompresses to more than {most} bytes"
                    break
    except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        problem = f"is damaged: {error}"
    if problem is None and size is not None and output.stat().st_size != size:
        problem = f"decompresses to {output.stat().st_size} bytes, its index says {size}"
    if problem is None and sha256 is not None and (found := sha256_of(output)) != sha256:
        problem = f"decompresses to the SHA-256 {found}, its index says {sha256}"
    if problem is not None:
        output.unlink(missing_ok=True)
        path.unlink()
        raise TemporaryHubError(f"{path.name}: {problem}; nothing of it was kept, try again later")
