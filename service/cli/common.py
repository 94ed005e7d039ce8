"""The parts that several commands share: options, the style of errors, the version."""

import difflib
import importlib.metadata
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from model.user_cache import NoHomeError
from service.settings.retired import refusal

UNUSABLE: Final = 2
"""Exit status of every command that cannot do its work: a wrong option, a port in use, a model that cannot be read."""

UrlOption = Annotated[
    str | None, typer.Option(help="Use a running server: HOST:PORT or a URL. Without it, the model runs here.")
]
ApiKeyOption = Annotated[
    str | None, typer.Option(help="API key of the server. DRAGOMAN_API_KEY is safer: other users cannot see it.")
]


class Commands(TyperGroup):
    """A group of commands whose usage errors are one line on standard error, like all other errors of `dragoman`."""

    def main(self, *args: Any, **options: Any) -> Any:
        if not options.get("standalone_mode", True):
            return super().main(*args, **options)
        try:
            status = super().main(*args, **(options | {"standalone_mode": False}))
        except typer.TyperException as error:
            if message := _usage_error(error):
                typer.echo(message, err=True)
            sys.exit(error.exit_code)
        except NoHomeError as error:
            typer.echo(f"dragoman: {error}", err=True)
            sys.exit(UNUSABLE)
        except typer.Abort:
            typer.echo("dragoman: aborted", err=True)
            sys.exit(1)
        sys.exit(status if isinstance(status, int) else 0)


def _usage_error(error: typer.TyperException) -> str:
    """Describe the error in one line; "" if the help has been printed instead."""
    message = " ".join(error.format_message().split())
    if not message:
        return ""
    option = getattr(error, "option_name", "")
    if retired := refusal(option):
        return f"dragoman: {retired}"
    if option and hasattr(error, "possibilities"):
        meant = difflib.get_close_matches(option, error.possibilities or (), n=1)
        message = f"no such option: {option}" + "".join(f"; did you mean {each}?" for each in meant)
    context = getattr(error, "ctx", None)
    hint = f" (see `{context.command_path} --help`)" if context else ""
    return f"dragoman: {message[:1].lower()}{message[1:].rstrip('.')}{hint}"


def show_version(wanted: bool) -> None:
    """Print the version and end the program, if it was requested."""
    if wanted:
        typer.echo(f"dragoman {importlib.metadata.version('dragoman')}")
        raise typer.Exit


def show_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns, which are not shortened on a narrow terminal."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def fail(message: str, status: int = UNUSABLE) -> NoReturn:
    """Print the error in one line and end the program."""
    typer.echo(f"dragoman: {message}", err=True)
    raise typer.Exit(status)
