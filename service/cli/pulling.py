"""Models for a command: a name where a path is taken, the progress of a download, and the limits of an import."""

import resource
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.progress import Progress as Bars

from model.checkpoint_config import CheckpointConfig, CheckpointError, LanguageHint
from model.source_files import DEFAULT_MAX_MEGABYTES
from service.cli.common import fail
from service.cli.settings_options import load_command_settings
from service.hub.errors import HubError
from service.hub.names import HubName, HubOptions, hidden_name, parse_model
from service.hub.progress import Progress, Report
from service.registry.importing import ensure_imported

_GIGABYTE: Final = 1 << 30
_OWN_BYTES: Final = 4 * _GIGABYTE
"""Memory of Python and torch, with the libraries of a GPU."""
_COPIES: Final = 4
"""Copies of the weights: as read, as converted, in a wider type, and as written."""


def print_report(report: Report) -> None:
    typer.echo(msgspec.json.encode(report).decode())


def local_model(model: Path | HubName, options: HubOptions) -> Path:
    """Return the path of a model, downloading a public one first; an error ends the program."""
    if isinstance(model, Path):
        return model
    try:
        return pull(model, options, refresh=False)
    except (HubError, CheckpointError) as error:
        fail(str(error))


def local_checkpoint(text: str | Path) -> Path:
    """Return the path that an option names: its own, or that of a public model, which is downloaded first."""
    # A default is a path already.
    return text if isinstance(text, Path) else local_model(parsed_model(text), load_command_settings().hub_options)


def parsed_model(text: str) -> Path | HubName:
    """Return the path or the name that a text stands for; an error ends the program."""
    try:
        model = parse_model(text)
    except ValueError as error:
        fail(str(error))
    if isinstance(model, Path) and (hidden := hidden_name(model)):
        typer.echo(f"dragoman: {model} is the directory here; {hidden} is the public model", err=True)
    return model


def pull(
    name: HubName,
    options: HubOptions,
    *,
    refresh: bool,
    as_json: bool = False,
    max_megabytes: int = DEFAULT_MAX_MEGABYTES,
) -> Path:
    """Return the checkpoint of a public model, with a bar on a terminal, or lines of JSON for a program.

    The files of an import may have `max_megabytes`, unpacked. Raises `HubError` and `CheckpointError`.
    """
    # Loads an HTTP client, which no other command needs.
    from service.hub.pull import Hub

    with progress_bar(str(name), _Reporter(str(name)) if as_json else None) as progress:
        return Hub(options).pull(name, partial(import_files, max_megabytes=max_megabytes), progress, refresh=refresh)


def confine(seconds: int | None) -> None:
    """End this process, which imports a checkpoint, after `seconds`; limit its memory to that of its libraries."""
    if seconds is not None:
        signal.alarm(seconds)
    confine_memory(0)


def confine_memory(source_bytes: int) -> None:
    """Limit the memory of this process to what an import of files of this size needs at most.

    Only Linux enforces it.
    """
    # Not by `limit_resource`, which keeps the lower limit of a size that was not known yet.
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = _OWN_BYTES + _COPIES * source_bytes
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def import_named(name: HubName, output: Path, languages: LanguageHint, *, offline: bool) -> CheckpointConfig:
    """Convert a public model into a directory of its own, by hints that override those of its index.

    Raises `HubError`, `CheckpointError` and `OSError`.
    """
    from service.hub.pull import Hub
    from service.hub.store import add_origin

    options = load_command_settings(offline=offline).hub_options
    with progress_bar(str(name)) as progress, Hub(options).files(name, progress) as download:
        progress.enter("importing")
        hint = LanguageHint(*(given or known for given, known in zip(languages, download.languages, strict=True)))
        made = import_files(download.path, hint)
        shutil.copytree(made, output, dirs_exist_ok=True)
        shutil.rmtree(made)
        return add_origin(output, download.origin)


def import_files(path: Path, languages: LanguageHint, max_megabytes: int = DEFAULT_MAX_MEGABYTES) -> Path:
    """Return a checkpoint of our own that can be moved, made of downloaded files. Raises `CheckpointError`."""
    made = ensure_imported(path, max_megabytes, languages=languages)
    if made != path:
        return made
    # The files may be links to those of Hugging Face's cache, which must not change.
    copy = path.with_name(f"{path.name}.copy")
    shutil.rmtree(copy, ignore_errors=True)
    return Path(shutil.copytree(path, copy))


@contextmanager
def progress_bar(name: str, reporter: "_Reporter | None" = None) -> Iterator[Progress]:
    """Show a download on standard error, if that is a terminal; `reporter` shows it, too."""
    console = Console(stderr=True)
    columns: Any = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    bars = Bars(*columns, console=console, disable=not console.is_terminal)
    task = bars.add_task(name, total=None)

    def show(progress: Progress) -> None:
        bars.start()  # not before: a model that is here needs no bar
        step = "" if progress.step == "downloading" else f": {progress.step}"
        bars.update(task, description=f"{name}{step}", completed=progress.done, total=progress.total)
        if reporter is not None:
            reporter(progress)

    try:
        yield Progress(show)
    finally:
        bars.stop()


class _Reporter:
    """Prints each step and each percent of it as a line of JSON."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last = ("", 0)

    def __call__(self, progress: Progress) -> None:
        place = progress.step, 100 * progress.done // progress.total if progress.total else 0
        if place != self._last:
            self._last = place
            print_report(Report(name=self._name, step=progress.step, done=progress.done, total=progress.total))
