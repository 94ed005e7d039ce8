"""Zip archives of documents, read within limits: bombs, encryption, broken and misleading members are refused."""

import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Final

from service.documents.limits import DocumentLimits
from service.errors import InvalidRequest, TooLong

_CHUNK: Final = 1 << 16
_ENCRYPTED: Final = 0x1


class Archive:
    """An open zip archive whose directory is within the limits; it is never extracted to paths."""

    def __init__(self, file: zipfile.ZipFile, limits: DocumentLimits) -> None:
        self._file = file
        self._limits = limits
        self.members = file.infolist()
        self._check()

    def _check(self) -> None:
        limits = self._limits
        if len(self.members) > limits.max_members:
            raise TooLong("file", f"{len(self.members)} parts, the limit is {limits.max_members}")
        if len({member.filename for member in self.members}) < len(self.members):
            raise InvalidRequest("file", "two parts of the archive have the same name")
        for member in self.members:
            if member.flag_bits & _ENCRYPTED:
                raise InvalidRequest("file", "the document is encrypted; remove its password first")
        if sum(member.file_size for member in self.members) > limits.max_expanded_bytes:
            raise TooLong("file", f"it expands to more than {limits.max_expanded_bytes} bytes")

    def read(self, member: zipfile.ZipInfo) -> bytes:
        """Read a part that holds text."""
        if member.file_size > self._limits.max_part_bytes:
            raise TooLong("file", f"a part has {member.file_size} bytes, the limit is {self._limits.max_part_bytes}")
        return b"".join(self.chunks(member))

    def chunks(self, member: zipfile.ZipInfo) -> Iterator[bytes]:
        """Yield the content of a part, never more than its directory entry says."""
        size = 0
        with _readable(), self._file.open(member) as stream:
            while chunk := stream.read(_CHUNK):
                size += len(chunk)
                if size > member.file_size:
                    raise InvalidRequest("file", "the archive is damaged")
                yield chunk


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError):
        raise InvalidRequest("file", "the archive is damaged") from None


@contextmanager
def open_archive(path: Path, limits: DocumentLimits) -> Iterator[Archive]:
    """Open an archive. Raises `InvalidRequest` and `TooLong`."""
    with _readable():
        file = zipfile.ZipFile(path)
    with file:
        yield Archive(file, limits)


def write_member(member: zipfile.ZipInfo, chunks: Iterable[bytes], size: int, output: zipfile.ZipFile) -> None:
    """Write a part with another content of `size` bytes, or with its own."""
    copied = copy(member)  # `open` changes it
    copied.extra, copied.file_size = b"", size
    with output.open(copied, "w") as sink:
        for chunk in chunks:
            sink.write(chunk)
