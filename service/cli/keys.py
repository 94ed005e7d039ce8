"""The commands `dragoman keys add | list | remove`."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from service.access.async_key_store import this_month
from service.access.key_store import Key, KeyLimits, KeysError, KeyStore
from service.cli.common import fail, show_table
from service.cli.settings_options import load_command_settings

app = typer.Typer(no_args_is_help=True, help="Manage API keys; `serve --keys FILE` requires one of the file.")

FileOption = Annotated[Path | None, typer.Option("--keys", help="File of the keys; the default is DRAGOMAN_KEYS.")]
NameArgument = Annotated[str, typer.Argument(help="Name of the key in logs and in `list`.")]


@app.command()
def add(
    name: NameArgument,
    requests_per_minute: Annotated[int | None, typer.Option(min=1, help="Limit of requests per minute.")] = None,
    characters_per_minute: Annotated[int | None, typer.Option(min=1, help="Limit of characters per minute.")] = None,
    characters_per_month: Annotated[int | None, typer.Option(min=1, help="Quota per calendar month (UTC).")] = None,
    streams: Annotated[int | None, typer.Option(min=1, help="Limit of concurrent streams in each server.")] = None,
    keys: FileOption = None,
) -> None:
    """Create a key and print it once; only its hash is stored. Limits that are not given do not apply."""
    limits = KeyLimits(requests_per_minute, characters_per_minute, characters_per_month, streams)
    with _opened(keys, create=True) as file:
        typer.echo(file.add(name, limits))


@app.command(name="list")
def list_(
    keys: FileOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each key.")] = False,
) -> None:
    """List keys, their limits and their usage in this month."""
    with _opened(keys) as file:
        month = this_month()
        known = [(key, file.usage(key, month)) for key in file.list()]
    if as_json:
        for key, characters in known:
            fields = {"name": key.name, "key": f"{key.label}...", "created_at": key.created_at}
            usage = {"month": month, "usage": {"characters": characters}}
            typer.echo(json.dumps(fields | {"limits": asdict(key.limits)} | usage))
        return
    headings = ("name", "key", "requests/min", "characters/min", "streams", f"characters in {month}")
    show_table([headings, *(_row(key, characters) for key, characters in known)])


@app.command()
def remove(name: NameArgument, keys: FileOption = None) -> None:
    """Delete a key and its usage; running servers refuse it at once."""
    with _opened(keys) as file:
        file.remove(name)


def _row(key: Key, characters: int) -> tuple[str, ...]:
    limits = key.limits
    rates = map(_limit, (limits.requests_per_minute, limits.characters_per_minute, limits.streams))
    return key.name, f"{key.label}...", *rates, f"{characters:,} of {_limit(limits.characters_per_month)}"


def _limit(value: int | None) -> str:
    return "any" if value is None else f"{value:,}"


@contextmanager
def _opened(path: Path | None, *, create: bool = False) -> Iterator[KeyStore]:
    path = path or load_command_settings().keys
    if path is None:
        fail("no key file: give --keys FILE, or set DRAGOMAN_KEYS")
    try:
        with closing(KeyStore(path, create=create)) as file:
            yield file
    except KeysError as error:
        fail(str(error))
