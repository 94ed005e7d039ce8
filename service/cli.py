"""`dragoman serve | translate | train | evaluate`."""

import asyncio
import logging
import os
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from pydantic import ValidationError
from pydantic_settings import CliApp, SettingsError

from model.manifest import CheckpointError
from service.errors import ServiceError
from service.settings import EMBEDDED_MODEL, Settings

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Self-hosted machine translation that streams.")


def main() -> None:
    app()


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def serve(context: typer.Context) -> None:
    """Run the server; `dragoman serve --help` lists the settings."""
    from service import logs
    from service.app import create_app
    from service.server import DrainingServer

    settings = _settings(context.args)
    logs.configure(settings.log_level)
    failed = False

    def on_failure() -> None:
        nonlocal failed
        failed = True
        server.should_exit = True

    try:
        server = DrainingServer(create_app(settings, on_failure), settings)
    except CheckpointError as error:
        _fail(str(error))
    # Bound before an engine is started: a port in use is said at once.
    server.run(sockets=[server.config.bind_socket()])
    if failed or not server.started:
        raise typer.Exit(1)


def _settings(arguments: list[str]) -> Settings:
    """Flags over environment over defaults; ends the program with the name of a wrong one."""
    try:
        return CliApp.run(Settings, cli_args=arguments)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        _fail("; ".join(problems))
    except SettingsError as error:
        _fail(str(error))


@app.command()
def translate(
    texts: Annotated[list[str] | None, typer.Argument(help="Texts; standard input if none are given.")] = None,
    source: Annotated[str, typer.Option(help="Language of the text.")] = "en",
    target: Annotated[str, typer.Option(help="Language to translate into.")] = "fr",
    url: Annotated[str | None, typer.Option(help="A running server; without it, the model runs here.")] = None,
    model: Annotated[Path | None, typer.Option(help="Checkpoint directory, when the model runs here.")] = None,
) -> None:
    """Translate, printing each token as it comes."""
    from service.terminal import translate_locally, translate_remotely

    texts = texts or [_standard_input()]
    pieces = (
        translate_remotely(url, texts, source, target)
        if url is not None
        else translate_locally(_settings([] if model is None else ["--model", str(model)]), texts, source, target)
    )

    async def show() -> None:
        async with aclosing(pieces):
            async for piece in pieces:
                sys.stdout.write(piece)
                sys.stdout.flush()

    try:
        asyncio.run(show())
    except (ServiceError, CheckpointError) as error:
        _fail(str(error))
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python must not try to flush the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode().rstrip("\n")
    except UnicodeDecodeError:
        _fail("standard input is not UTF-8")


@app.command()
def train(
    config: Annotated[Path, typer.Argument(help="The experiment (TOML).")],
    data: Annotated[Path, typer.Option(help="Directory of the corpora; a path that is not in it is taken as it is.")],
    output: Annotated[Path, typer.Option(help="Directory of the run; an unfinished run there is resumed.")],
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...")] = "cpu",
) -> None:
    """Train a model from parallel text."""
    from model.training.config import TrainConfig
    from model.training.data import CorpusError
    from model.training.train import TrainingError
    from model.training.train import train as run

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        checkpoint = run(TrainConfig.from_toml(config), data, output, device)
    except (ValidationError, ValueError, OSError, CorpusError, TrainingError) as error:
        _fail(str(error))
    typer.echo(f"checkpoint: {checkpoint}")


@app.command()
def evaluate(
    test: Annotated[Path, typer.Argument(help="source<TAB>reference lines, plain or .xz.")],
    model: Annotated[Path | None, typer.Option(help="Checkpoint directory.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first lines.")] = None,
) -> None:
    """Score a checkpoint: sacrebleu's BLEU and chrF with their signatures."""
    from model.training.evaluate import evaluate as run

    try:
        scores = run(model or EMBEDDED_MODEL, test, limit)
    except (CheckpointError, ValueError, OSError) as error:
        _fail(str(error))
    for score in scores:
        typer.echo(score)


def _fail(message: str) -> NoReturn:
    typer.echo(f"dragoman: {message}", err=True)
    raise typer.Exit(2)
