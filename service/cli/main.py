"""The program `dragoman`: serve, translate, doctor, import, bench, and the commands of keys and training."""

import asyncio
import logging
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, TextIO

import typer

from model.checkpoint_config import CheckpointError
from service.cli.common import UNUSABLE, ApiKeyOption, Commands, UrlOption, fail, show_version
from service.cli.keys import app as keys_app
from service.cli.settings_options import load_settings, takes_settings
from service.cli.training import app as training_app
from service.errors import ServiceError
from service.settings import CommandSettings, Settings, UnusableSettingError, unknown_variables

logger = logging.getLogger(__name__)
app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False)
app.add_typer(keys_app, name="keys")
app.add_typer(training_app)


def main() -> None:
    app()


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Self-hosted machine translation that streams."""


@app.command()
@takes_settings
def serve(settings: Settings) -> None:
    """Run the server.

    Each option is also an environment variable: --max-waiting is DRAGOMAN_MAX_WAITING. Options win over variables.
    """
    from service import logs
    from service.app import create_app
    from service.server.server import DrainingServer, listen

    logs.configure(settings.log_level)
    for problem in unknown_variables():
        logger.warning(problem)
    failures: list[str] = []

    def on_failure(reason: str) -> None:
        failures.append(reason)
        server.should_exit = True

    try:
        server = DrainingServer(create_app(settings, on_failure), settings)
        # Before any engine is started: a port in use is reported at once.
        listening = listen(settings.host, settings.port)
    except (CheckpointError, UnusableSettingError) as error:
        fail(str(error))
    server.run(sockets=[listening])
    if failures:
        fail("; ".join(failures))
    if not server.started:
        raise typer.Exit(1)


@app.command()
def translate(  # noqa: PLR0913  each is an option of the command
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to translate; without any, standard input.")] = None,
    source: Annotated[str, typer.Option("--source", "-s", help="Language of the text; auto detects it.")] = "en",
    target: Annotated[str, typer.Option("--target", "-t", help="Language to translate into.")] = "fr",
    files: Annotated[
        list[Path] | None, typer.Option("--file", "-f", help="Translate this file; may be repeated.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the translation to this file.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write a JSON object for each text, or for each line of a file.")
    ] = False,
    alternatives: Annotated[int, typer.Option(min=0, help="Number of alternative translations, with --json.")] = 0,
    beam_size: Annotated[int | None, typer.Option(min=1, help="Beam width; 1 disables beam search.")] = None,
    glossary: Annotated[
        Path | None, typer.Option(help="File with a term and its translation on each line, as TSV or .csv.")
    ] = None,
    url: UrlOption = None,
    api_key: ApiKeyOption = None,
    model: Annotated[Path | None, typer.Option(help="Checkpoint to use if the model runs here.")] = None,
) -> None:
    """Translate text and print each token as soon as it is generated. Line breaks are kept."""
    from service.cli.translate import InputError, TranslationJob, local_engine, read, read_glossary, server
    from service.cli.translate import translate as run
    from service.client import ClientError, Options

    if texts and files:
        fail("give texts or files, not both")
    if alternatives and not as_json:
        fail("--alternatives needs --json")
    options = Options(scores=True, alternatives=alternatives) if as_json else Options()
    if beam_size is not None:
        options["beam_size"] = beam_size

    async def show(sink: TextIO) -> None:
        # A progress bar and tokens on the same terminal would overwrite each other.
        progress = bool(files) and sys.stderr.isatty() and not sink.isatty()
        job = TranslationJob(
            source=source, target=target, options=options, as_json=as_json, output=sink, progress=progress
        )
        given = {} if model is None else {"model": model}
        engine = (
            server(url, api_key or CommandSettings().api_key, job)
            if url is not None
            else local_engine(load_settings(**given), job)
        )
        async with engine as stream:
            await run(stream, work, job)

    try:
        if glossary is not None:
            options["glossary"] = read_glossary(glossary)
        work = [text if as_json else f"{text}\n" for text in texts] if texts else read(files, by_line=as_json)
        if not any(work):
            typer.echo("dragoman: nothing to translate", err=True)
        with nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8", newline="") as sink:
            asyncio.run(show(sink))
    except (ServiceError, ClientError, CheckpointError, UnusableSettingError, InputError) as error:
        fail(str(error))
    except BrokenPipeError:
        # The reader of our output has closed it; Python must not try to flush the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        fail(f"{output or 'standard output'}: {error.strerror}")


@app.command()
@takes_settings
def doctor(
    settings: Settings,
    seconds: Annotated[float, typer.Option(min=0.1, help="Duration of the self-test.")] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as a JSON object.")] = False,
) -> None:
    """Check this installation: report what would run here, and translate for some seconds.

    Takes the settings of `dragoman serve`. A problem ends the command with status 2.
    """
    import msgspec

    from service.cli.doctor import examine, lines

    logging.basicConfig(level=logging.ERROR)
    report = examine(settings, seconds)
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(report)))
    else:
        typer.echo("\n".join(lines(report)))
    if report.problems:
        typer.echo("\n".join(f"dragoman: {problem}" for problem in report.problems), err=True)
        raise typer.Exit(UNUSABLE)


@app.command(name="import")
def import_(
    path: Annotated[Path, typer.Argument(help="Argos package, or directory of a CTranslate2 or Hugging Face model.")],
    output: Annotated[Path, typer.Option(help="Directory for the new checkpoint, for `serve --model`.")],
    source: Annotated[str | None, typer.Option(help="Source language, if the files do not name it.")] = None,
    target: Annotated[str | None, typer.Option(help="Target language, if the files do not name it.")] = None,
) -> None:
    """Convert a model of another format to a checkpoint of Dragoman."""
    from model.checkpoint_config import LanguageHint
    from model.formats import import_checkpoint

    try:
        config = import_checkpoint(path, output, LanguageHint(source, target))
    except (CheckpointError, OSError) as error:
        fail(str(error))
    languages = ", ".join(map(str, config.directions)) or f"{len(config.languages)} languages, every pair of them"
    typer.echo(f"{output}: {languages}")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def bench(context: typer.Context) -> None:
    """Compare the engine with others; `dragoman bench --help` lists the options."""
    try:
        from loadtest.compare.command import command
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "loadtest":
            raise
        fail("the benchmark is not installed here; install it with `pip install 'dragoman[load]'`")
    raise typer.Exit(command.main(args=context.args, prog_name="dragoman bench", standalone_mode=False) or 0)
