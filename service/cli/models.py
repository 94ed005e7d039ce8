"""`dragoman pull | models | remove`: public models by name, and the cache that holds them."""

from collections.abc import Iterable
from typing import Annotated, Final, Literal

import msgspec
import typer

from model.checkpoint_config import CheckpointError
from model.source_files import DEFAULT_MAX_MEGABYTES
from service.cli.common import UNUSABLE, fail, show_table
from service.cli.pulling import print_report, pull
from service.cli.settings_options import load_command_settings
from service.hub.errors import HubError, TemporaryHubError
from service.hub.names import HubName, parse_name
from service.hub.progress import Report
from service.settings import CommandSettings

_MEGABYTE: Final = 1_000_000
_MANY: Final = 4
"""Directions of a model that a table lists; of more it gives the number."""

_HEADINGS: Final = ("NAME", "REVISION", "DIRECTIONS", "MB", "LICENCE", "SOURCE")

app = typer.Typer()

NamesArgument = Annotated[
    list[str], typer.Argument(help="As Helsinki-NLP/opus-mt-en-de, hf:OWNER/NAME@REVISION, argos:en-de, firefox:en-de.")
]
OfflineOption = Annotated[bool, typer.Option("--offline", help="Use no network. Also the variable DRAGOMAN_OFFLINE.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SourceOption = Annotated[str | None, typer.Option("--from", help="Only models that translate from this language.")]
TargetOption = Annotated[str | None, typer.Option("--to", help="Only models that translate into this language.")]


class ModelRow(msgspec.Struct, omit_defaults=True):
    """A model that is here, or that can be had."""

    name: str
    directions: list[tuple[str, str]]
    revision: str
    bytes: int | None
    licence: str | None
    url: str | None = None
    path: str | None = None


@app.command(name="pull")
def pull_(
    names: NamesArgument,
    if_missing: Annotated[
        bool, typer.Option("--if-missing", help="Do not look for newer revisions of models that are here.")
    ] = False,
    offline: OfflineOption = False,
    max_mb: Annotated[
        int, typer.Option(min=1, help="Size of the files of a model that has to be imported, unpacked.")
    ] = DEFAULT_MAX_MEGABYTES,
    as_json: Annotated[bool, typer.Option("--json", help="Print progress and results as lines of JSON.")] = False,
) -> None:
    """Download public models, and convert them for `serve` and `translate`."""
    settings = load_command_settings(offline=offline)
    wanted = _parsed(names)
    failed = False
    for name in wanted:
        report = Report(name=str(name))
        try:
            path = pull(name, settings.hub_options, refresh=not if_missing, as_json=as_json, max_megabytes=max_mb)
            report.path = str(path)
        except (HubError, CheckpointError) as error:
            failed = True
            report.error, report.temporary = str(error), isinstance(error, TemporaryHubError)
        if as_json:
            print_report(report)
        elif report.error is not None:
            typer.echo(f"dragoman: {report.error}", err=True)
        else:
            typer.echo(f"{name}: {report.path}")
    if failed:
        raise typer.Exit(UNUSABLE)


@app.command()
def models(
    available: Annotated[
        Literal["argos", "firefox"] | None, typer.Option(help="List the models of an index instead.")
    ] = None,
    source: SourceOption = None,
    target: TargetOption = None,
    offline: OfflineOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the public models that are here, with their directions, sizes, licences and sources."""
    rows = _here() if available is None else _available(available, load_command_settings(offline=offline))
    chosen = [row for row in rows if _translates(row, source, target)]
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(chosen)))
        return
    if not chosen:
        nothing = "no public model is here" if available is None else "the index has no such model"
        typer.echo(f"{nothing}; `dragoman models --available firefox` lists what can be pulled", err=True)
        return
    show_table([_HEADINGS, *map(_cells, chosen)])


@app.command()
def remove(
    names: NamesArgument,
    with_download: Annotated[
        bool, typer.Option(help="Also remove the download from Hugging Face's cache, which other programs may use.")
    ] = False,
) -> None:
    """Remove public models from the cache: all revisions, or the one that the name has."""
    from service.hub.huggingface import remove_download
    from service.hub.store import Store

    store = Store()
    wanted = [(name, store.matching(name)) for name in _parsed(names)]
    if missing := [str(name) for name, entries in wanted if not entries]:
        fail(f"{', '.join(missing)}: not here; `dragoman models` lists what is")
    for name, entries in wanted:
        for entry in entries:
            try:
                freed = entry.size
                with store.lock(str(name.unpinned)):
                    store.remove(entry)
                if with_download and name.source == "hf":
                    freed += remove_download(name, entry.origin.revision)
            except OSError as error:
                fail(f"{name}: {error}")
            typer.echo(f"{entry.origin.name}@{entry.origin.revision}: removed, {freed / _MEGABYTE:.1f} MB")


def _parsed(names: Iterable[str]) -> list[HubName]:
    try:
        return [parse_name(name) for name in names]
    except ValueError as error:
        fail(str(error))


def _here() -> list[ModelRow]:
    from service.hub.store import Store

    return [
        ModelRow(
            name=entry.origin.name,
            directions=[direction.codes() for direction in entry.config.all_directions()],
            revision=entry.origin.revision,
            bytes=entry.size,
            licence=entry.origin.licence,
            url=entry.origin.url,
            path=str(entry.path),
        )
        for entry in Store().entries()
    ]


def _available(index: Literal["argos", "firefox"], settings: CommandSettings) -> list[ModelRow]:
    from service.hub.pull import SOURCES

    if settings.offline:
        fail(f"the index of {index} is not read offline")
    listings = SOURCES[index].listings
    assert listings is not None
    try:
        found = listings(settings.hub_options)
    except HubError as error:
        fail(str(error))
    return sorted(
        (
            ModelRow(str(each.name), [(each.source, each.target)], each.revision, each.size, each.licence)
            for each in found
        ),
        key=lambda row: row.name,
    )


def _translates(row: ModelRow, source: str | None, target: str | None) -> bool:
    return any(source in (None, one) and target in (None, other) for one, other in row.directions)


def _cells(row: ModelRow) -> tuple[str, ...]:
    many = len(row.directions)
    directions = f"{many} directions" if many > _MANY else ", ".join("-".join(each) for each in row.directions)
    size = "?" if row.bytes is None else f"{row.bytes / _MEGABYTE:.1f}"
    return row.name, row.revision[:12], directions, size, row.licence or "not stated", row.url or ""
