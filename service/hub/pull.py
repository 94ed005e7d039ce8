"""Pulling a model: find its release, download, import, and move the checkpoint into the cache.

Knows no format: the importer is passed in.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from filelock import Timeout

from model.checkpoint_config import CheckpointError, LanguageHint, Origin
from service.hub import argos, firefox, huggingface
from service.hub.errors import HubError, TemporaryHubError, is_full_disk, missing_offline
from service.hub.names import HubName, HubOptions, SourceName
from service.hub.progress import Progress
from service.hub.release import Listing, Release
from service.hub.store import Store

_MEGABYTE: Final = 1_000_000
_IMPORT: Final = "importing"
"""Name of the lock for imports: an import takes more memory than a loaded model, so there is one at a time."""

Import = Callable[[Path, LanguageHint], Path]
"""Returns a checkpoint of our own format, made of the files; raises `CheckpointError`."""


class Source(NamedTuple):
    """One source of models."""

    release: Callable[[HubName, HubOptions], Release]
    """Finds the revision of a name. Raises `HubError`."""
    listings: Callable[[HubOptions], Sequence[Listing]] | None
    """Lists all models; None for a source that has too many. Raises `HubError`."""
    works_offline: bool = False
    """True if the source has its own cache of releases."""


SOURCES: Final[Mapping[SourceName, Source]] = {
    "hf": Source(huggingface.release, None, works_offline=True),
    "argos": Source(argos.release, argos.listings),
    "firefox": Source(firefox.release, firefox.listings),
}
"""How a release of each source is found, and how its index is listed."""


class Download(NamedTuple):
    """The files of a release, for the importer."""

    path: Path
    origin: Origin
    languages: LanguageHint


class Hub:
    """Public models: their sources, and the cache of pulled ones."""

    def __init__(self, options: HubOptions) -> None:
        self._options = options
        self._store = Store()

    def pull(self, name: HubName, importer: Import, progress: Progress, *, refresh: bool = True) -> Path:
        """Return the checkpoint of a name, downloading and importing it if necessary.

        `refresh` asks the source for a newer revision than the cached one. Raises `HubError` and `CheckpointError`.
        """
        refresh = refresh and not self._options.offline
        if not refresh and (found := self._store.find(name)):
            return found
        with _reported(name), self._held(str(name.unpinned), progress):
            if not refresh and (found := self._store.find(name)):  # another process may have pulled it meanwhile
                return found
            release = self._release(name)
            if found := self._store.find(replace(name, revision=release.origin.revision)):
                return found
            with self._downloaded(name, release, progress) as download, self._held(_IMPORT, progress):
                progress.enter("importing")
                return self._store.keep(importer(download.path, download.languages), download.origin)

    @contextmanager
    def files(self, name: HubName, progress: Progress) -> Iterator[Download]:
        """Yield the files of a name for an import elsewhere; at the end, remove them. Raises as `pull` does."""
        with (
            _reported(name),
            self._held(str(name.unpinned), progress),
            self._downloaded(name, self._release(name), progress) as download,
        ):
            yield download

    def _release(self, name: HubName) -> Release:
        source = SOURCES[name.source]
        if self._options.offline and not source.works_offline:
            raise missing_offline(name)
        return source.release(name, self._options)

    @contextmanager
    def _downloaded(self, name: HubName, release: Release, progress: Progress) -> Iterator[Download]:
        """Yield the files; the next attempt continues a download that a cut connection or a signal ended."""
        staging = self._store.staging(release.origin)
        try:
            _check_room(name, staging, release.size)
            progress.begin(release.size)
            files = release.fetch(staging, progress)
            origin = release.origin.model_copy(update={"sha256": dict(files.sha256)})
            yield Download(files.path, origin, release.languages)
        except (TemporaryHubError, KeyboardInterrupt):
            raise
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        shutil.rmtree(staging, ignore_errors=True)

    @contextmanager
    def _held(self, lock_name: str, progress: Progress) -> Iterator[None]:
        """Hold a lock; while another process holds it, report that."""
        lock = self._store.lock(lock_name)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            progress.enter("waiting for another process")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()


def _check_room(name: HubName, staging: Path, size: int | None) -> None:
    there = sum(file.stat().st_size for file in staging.rglob("*") if file.is_file())
    if size is not None and size > shutil.disk_usage(staging).free + there:
        shutil.rmtree(staging, ignore_errors=True)
        raise _no_room(name, f"; the download alone takes {size / _MEGABYTE:,.1f} MB")


def _no_room(name: HubName, details: str) -> TemporaryHubError:
    return TemporaryHubError(f"{name}: the disk of the cache is full{details}; nothing was kept")


@contextmanager
def _reported(name: HubName) -> Iterator[None]:
    """Convert errors of the disk to `TemporaryHubError`, and put the model's name before errors without it."""
    try:
        yield
    except (HubError, CheckpointError) as error:
        if str(error).startswith(str(name.unpinned)):
            raise
        raise type(error)(f"{name}: {error}") from None
    except OSError as error:
        if is_full_disk(error):
            raise _no_room(name, "") from None
        raise TemporaryHubError(f"{name}: {error}") from None
