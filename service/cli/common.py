"""What several commands share: options, and how they fail."""

from typing import Annotated, NoReturn

import typer

UrlOption = Annotated[str | None, typer.Option(help="A running server; without it, the model runs here.")]
ApiKeyOption = Annotated[
    str | None, typer.Option(help="For a server that wants one; or DRAGOMAN_API_KEY, which others cannot see.")
]


def fail(message: str) -> NoReturn:
    """Say what is wrong, in one line, and end the program."""
    typer.echo(f"dragoman: {message}", err=True)
    raise typer.Exit(2)
