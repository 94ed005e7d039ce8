"""`dragoman keys add | list | remove`."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from service.access.key_store import Key, KeyFile, KeyLimits, KeysError, Usage, this_month
from service.cli.common import fail
from service.settings import CommandSettings

app = typer.Typer(no_args_is_help=True, help="API keys: a server started with `--keys FILE` knows those of the file.")

FileOption = Annotated[Path | None, typer.Option("--keys", help="The file of the keys; or DRAGOMAN_KEYS.")]
NameArgument = Annotated[str, typer.Argument(help="Whose key it is, in logs and in `list`.")]


@app.command()
def add(
    name: NameArgument,
    requests_per_minute: Annotated[int | None, typer.Option(min=1)] = None,
    characters_per_minute: Annotated[int | None, typer.Option(min=1)] = None,
    characters_per_month: Annotated[int | None, typer.Option(min=1, help="Of a calendar month, UTC.")] = None,
    streams: Annotated[int | None, typer.Option(min=1, help="At the same time, in each server.")] = None,
    keys: FileOption = None,
) -> None:
    """Make a key, and print it: this once, for what is kept does not tell it. Limits that are not given are none."""
    limits = KeyLimits(requests_per_minute, characters_per_minute, characters_per_month, streams)
    with _opened(keys, create=True) as file:
        typer.echo(file.add(name, limits))


@app.command(name="list")
def list_(
    keys: FileOption = None, as_json: Annotated[bool, typer.Option("--json", help="An object for each key.")] = False
) -> None:
    """Keys, limits, and what they have used in this month."""
    with _opened(keys) as file:
        month = this_month()
        known = [(key, file.usage(key, month)) for key in file.list()]
    if as_json:
        for key, usage in known:
            told = {"name": key.name, "key": f"{key.label}...", "created_at": key.created_at}
            typer.echo(json.dumps(told | {"limits": asdict(key.limits), "month": month, "usage": asdict(usage)}))
        return
    headings = ("name", "key", "requests/min", "characters/min", "streams", f"characters in {month}")
    rows = [headings, *(_row(key, usage) for key, usage in known)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    # However narrow the terminal is: a key's limits are not to be guessed.
    for row in rows:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@app.command()
def remove(name: NameArgument, keys: FileOption = None) -> None:
    """Delete a key and its usage; a running server refuses it from now on."""
    with _opened(keys) as file:
        file.remove(name)


def _row(key: Key, usage: Usage) -> tuple[str, ...]:
    limits = key.limits
    rates = map(_limit, (limits.requests_per_minute, limits.characters_per_minute, limits.streams))
    return key.name, f"{key.label}...", *rates, f"{usage.characters:,} of {_limit(limits.characters_per_month)}"


def _limit(value: int | None) -> str:
    return "any" if value is None else f"{value:,}"


@contextmanager
def _opened(path: Path | None, *, create: bool = False) -> Iterator[KeyFile]:
    path = path or CommandSettings().keys
    if path is None:
        fail("which file? Give --keys FILE, or set DRAGOMAN_KEYS")
    try:
        with closing(KeyFile(path, create=create)) as file:
            yield file
    except KeysError as error:
        fail(str(error))
