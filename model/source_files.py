"""The files of a checkpoint that somebody else has made: which of them may be read, and how archives are unpacked.

Only regular files inside the checkpoint's directory are read, and no more than a limit of bytes. A device or a FIFO
would be read for ever, a link or a name with `..` would read and write elsewhere, and a small archive can hold
terabytes. Knows no formats, and loads no torch.
"""

import os
import shutil
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from model.checkpoint_config import CheckpointError

MEGABYTE: Final = 1_000_000
DEFAULT_MAX_MEGABYTES: Final = 20_000
"""Limit for all files of a checkpoint, unpacked. A model of three billion parameters in float32 has 12,000."""
_MOST_FILES: Final = 10_000
_MOST_EXPANSION: Final = 20
"""Weights hardly shrink in an archive; what shrinks more than that was made to fill disks."""
_SMALL_BYTES: Final = 100 * MEGABYTE  # may expand as much as it likes
_ENCRYPTED: Final = 0x1
_COMPRESSIONS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others let the archive choose how much memory
_KINDS: Final = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}
_UNREADABLE: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    OSError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)
"""Errors of Python's reader for archives that are damaged or made up."""


def source_bytes(path: Path, max_bytes: int) -> int:
    """Check the files of a directory, or those that an archive declares, and return their size unpacked.

    Raises `CheckpointError`.
    """
    if not path.exists():
        raise CheckpointError(f"{path}: there is no such file or directory")
    if path.is_dir():
        return _checked_size(path, max_bytes, root=_root(path))
    if not path.is_file():
        raise CheckpointError(f"{path}: is {_kind(path.stat().st_mode)}, neither a directory nor an Argos package")
    with _opened(path) as package:
        return _checked_entries(path, package.infolist(), max_bytes)


def check_kinds(path: Path) -> None:
    """Raise `CheckpointError` if something in a directory is not a regular file, such as a device.

    Unlike `source_bytes`, it allows links to files elsewhere, as checkpoints of one's own may have them.
    """
    if path.is_dir():
        _checked_size(path, None, root=None)


def unpack(path: Path, directory: Path, max_bytes: int) -> None:
    """Unpack an archive into an empty directory. Raises `CheckpointError` before anything is written, if possible."""
    with _opened(path) as package:
        entries = package.infolist()
        size = _checked_entries(path, entries, max_bytes)
        if (free := shutil.disk_usage(directory).free) < size:
            raise CheckpointError(f"{path}: needs {_megabytes(size)} unpacked, and {directory} has {_megabytes(free)}")
        try:
            for entry in entries:
                package.extract(entry, directory)
        except _UNREADABLE as error:
            raise _damaged(path, error) from None


def source_file(directory: Path, name: str) -> Path:
    """Return the path of a file that another file names. Raises `CheckpointError` if it is not in the directory."""
    if not isinstance(name, str) or not name or "\0" in name or PurePosixPath(name).name != name:
        raise CheckpointError(f"{directory}: {name!r} does not name a file in it")
    path = directory / name
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path}: is {_kind(path.stat().st_mode)}, not a regular file")
    return path


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except _UNREADABLE as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{path}: a file must be an Argos package (.argosmodel); this is none, or a damaged one: {error}"
    )


def _checked_entries(path: Path, entries: Sequence[zipfile.ZipInfo], max_bytes: int) -> int:
    if len(entries) > _MOST_FILES:
        raise CheckpointError(f"{path}: has {len(entries)} files, the limit is {_MOST_FILES}")
    problems = [f"{entry.filename!r} {problem}" for entry in entries if (problem := _problem(entry))]
    twice = [name for name, count in Counter(entry.filename for entry in entries).items() if count > 1]
    problems += [f"{name!r} is there twice" for name in twice]
    if problems:
        raise CheckpointError(f"{path}: {'; '.join(problems)}")
    return check_expansion(path, entries, max_bytes)


def check_expansion(path: Path, entries: Sequence[zipfile.ZipInfo], max_bytes: int) -> int:
    """Return the size that an archive declares for its entries. Raises `CheckpointError` if that is too large."""
    size = sum(entry.file_size for entry in entries)
    _check_size(path, size, max_bytes)
    packed = path.stat().st_size
    if size > max(_SMALL_BYTES, _MOST_EXPANSION * packed):
        raise CheckpointError(
            f"{path}: {_megabytes(packed)} would become {_megabytes(size)}, more than {_MOST_EXPANSION} times as much"
        )
    return size


def _problem(entry: zipfile.ZipInfo) -> str:
    """Return the problem with an entry of an archive, or an empty string."""
    # `orig_filename` is the name in the archive; Python ends the name at a NUL.
    name = PurePosixPath(entry.orig_filename.replace("\\", "/"))
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if "\0" in entry.orig_filename or name.is_absolute() or ".." in name.parts or ":" in entry.orig_filename:
        return "leaves the directory"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return f"is {_kind(kind)}, not a regular file"
    if entry.flag_bits & _ENCRYPTED:
        return "is encrypted"
    return "" if entry.compress_type in _COMPRESSIONS else "is compressed by a method that is not supported"


def _checked_size(directory: Path, max_bytes: int | None, root: Path | None) -> int:
    size = 0
    for number, path in enumerate(_files(directory), 1):
        if number > _MOST_FILES:
            raise CheckpointError(f"{directory}: has more than {_MOST_FILES} files")
        try:
            found = path.stat()
        except OSError as error:
            raise CheckpointError(f"{path}: {error.strerror}") from None
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise CheckpointError(f"{path}: is {_kind(found.st_mode)}, not a regular file")
        if root is not None and path.is_symlink() and not path.resolve().is_relative_to(root):
            raise CheckpointError(f"{path}: is a link to {path.resolve()}, which is not in the directory")
        size += found.st_size if stat.S_ISREG(found.st_mode) else 0
    if max_bytes is not None:
        _check_size(directory, size, max_bytes)
    return size


def _files(directory: Path) -> Iterator[Path]:
    """Yield all entries of a directory that are not hidden, and those of its directories; links are not followed."""

    def fail(error: OSError) -> None:
        raise CheckpointError(f"{error.filename}: {error.strerror}")

    for parent, directories, files in os.walk(directory, onerror=fail):
        directories[:] = [name for name in directories if not name.startswith(".")]
        yield from (Path(parent, name) for name in (*directories, *files) if not name.startswith("."))


def _root(directory: Path) -> Path:
    """Return the directory that links must not leave: the checkpoint's, or its entry in Hugging Face's cache.

    There, `models--NAME/snapshots/REVISION` has links to files in `models--NAME/blobs`.
    """
    resolved = directory.resolve()
    entry = resolved.parent.parent
    return entry if resolved.parent.name == "snapshots" and entry.name.startswith("models--") else resolved


def _check_size(path: Path, size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise CheckpointError(f"{path}: has {_megabytes(size)} unpacked, the limit is {_megabytes(max_bytes)}")


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "something else")


def _megabytes(size: int) -> str:
    return f"{-(-size // MEGABYTE):,} MB"
