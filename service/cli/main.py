"""The program `dragoman`: serve, translate, doctor, import, and the commands of keys, models and training."""

import asyncio
import atexit
import gc
import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from model.checkpoint_config import CheckpointError
from model.source_files import DEFAULT_MAX_MEGABYTES, MEGABYTE, source_bytes
from service.cli.adapt import app as adapt_app
from service.cli.common import UNUSABLE, ApiKeyOption, Commands, UrlOption, fail, show_version
from service.cli.keys import app as keys_app
from service.cli.memory import app as memory_app
from service.cli.models import OfflineOption
from service.cli.models import app as models_app
from service.cli.pulling import confine, confine_memory, import_named, local_model, parsed_model
from service.cli.serve import serve
from service.cli.settings_options import load_command_settings, load_settings, takes_settings
from service.cli.training import app as training_app
from service.errors import ServiceError, UnknownLanguage
from service.hub.errors import HubError, is_full_disk
from service.settings import EMBEDDED_MODELS, Settings, UnusableSettingError

if TYPE_CHECKING:
    from service.cli.documents import DocumentOptions
    from service.cli.translate import Stream, TranslationJob

app = typer.Typer(cls=Commands, no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})
app.command()(serve)
app.add_typer(keys_app, name="keys")
app.add_typer(memory_app, name="memory")
app.add_typer(models_app)
app.add_typer(training_app)
app.add_typer(adapt_app)


def main() -> None:
    # Looking through all that was imported for garbage, once more at exit, takes half a second.
    atexit.register(gc.freeze)
    app()


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Self-hosted machine translation that streams."""


@app.command()
def translate(  # noqa: PLR0913  each is an option of the command
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to translate; without any, standard input.")] = None,
    source: Annotated[
        str,
        typer.Option(
            "--source",
            "-s",
            help="Language of the text; auto detects it.",
            show_default="en, or auto if the target is en",
        ),
    ] = "",
    target: Annotated[str, typer.Option("--target", "-t", help="Language to translate into.")] = "fr",
    files: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", help="Translate this file, document or directory; may be repeated."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the translation to this file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite --output without a question.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write a JSON object for each text, or for each line of a file.")
    ] = False,
    alternatives: Annotated[int, typer.Option(min=0, help="Number of alternative translations, with --json.")] = 0,
    beam_size: Annotated[int | None, typer.Option(min=1, help="Beam width; 1 disables beam search.")] = None,
    glossary: Annotated[
        Path | None, typer.Option(help="File with a term and its translation on each line, as TSV or .csv.")
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--column", help="Column of a .csv or .tsv to translate; may be repeated.")
    ] = None,
    output_format: Annotated[
        str, typer.Option("--output-format", help="Format of the result, for a document that cannot be written.")
    ] = "",
    max_characters: Annotated[int, typer.Option(min=1, help="Limit for the characters of a document.")] = 1_000_000,
    fuzzy: Annotated[bool, typer.Option(help="Mark new translations in a PO file as fuzzy.")] = True,
    report: Annotated[bool, typer.Option("--report", help="Say what happened to the texts of a document.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say which documents of a directory would be translated.")
    ] = False,
    url: UrlOption = None,
    api_key: ApiKeyOption = None,
    model: Annotated[
        str | None, typer.Option(help="Path or name of the model to use if it runs here.", metavar="<path or name>")
    ] = None,
    offline: OfflineOption = False,
) -> None:
    """Translate text and print each token as soon as it is generated. Line breaks are kept.

    A document (docx, pptx, xlsx, odt, epub, pdf, html, md, srt, po, json, yaml ...), or a directory of them, is written
    to --output. A pdf becomes a docx or an md. Of a directory, only what changed since the last time is translated.
    """
    from service.cli.documents import DocumentOptions, are_documents
    from service.cli.translate import InputError, TranslationJob, read, read_glossary
    from service.cli.translate import translate as run
    from service.client import ClientError, Options
    from service.text.language_codes import without_country

    source = source or ("auto" if without_country(target) == "en" else "en")
    _check_together({"texts": texts, "--file": files, "--column": columns, "--alternatives": alternatives}, as_json)
    options = Options(scores=True, alternatives=alternatives) if as_json else Options()
    if beam_size is not None:
        options["beam_size"] = beam_size

    engine = partial(_engine, url, api_key, partial(_with_local_model, model, offline, target))

    async def show(sink: TextIO) -> None:
        # A progress bar and tokens on the same terminal would overwrite each other.
        progress = bool(files) and sys.stderr.isatty() and not sink.isatty()
        job = TranslationJob(
            source=source, target=target, options=options, as_json=as_json, output=sink, progress=progress
        )
        async with engine(job) as stream:
            if not await run(stream, work, job):
                typer.echo("dragoman: nothing to translate", err=True)

    try:
        if glossary is not None:
            options["glossary"] = read_glossary(glossary)
        if files and are_documents(files, output) and output is not None:
            _check_output(output, may_overwrite=force)
            job = TranslationJob(source=source, target=target, options=options, progress=sys.stderr.isatty())
            chosen = DocumentOptions(
                columns=columns or (),
                output_format=output_format,
                max_characters=max_characters,
                marks_fuzzy=fuzzy,
                shows_report=report,
                is_dry_run=dry_run,
            )
            return _translate_documents(engine, job, files[0], output, chosen)
        _check_output(output, may_overwrite=force)
        given = [text if as_json else f"{text}\n" for text in texts or ()]
        work = given or (read(files, by_line=as_json) if files else None)
        with nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8", newline="") as sink:
            asyncio.run(show(sink))
    except UnknownLanguage as error:
        fail(f"{error}; for another language give --model, for example Helsinki-NLP/opus-mt-en-de")
    except (ServiceError, ClientError, CheckpointError, UnusableSettingError, InputError) as error:
        fail(str(error))
    except BrokenPipeError:
        # The reader of our output has closed it; Python must not try to flush the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        fail(f"{output or 'standard output'}: {error.strerror}")


def _check_output(output: Path | None, *, may_overwrite: bool) -> None:
    """Before a file is overwritten, ask at a terminal; end the program where nobody can answer, or the answer is no."""
    if output is None or may_overwrite or not output.is_file():
        return
    if not sys.stdin.isatty():
        fail(f"{output} exists; --force overwrites it")
    if not typer.confirm(f"{output} exists. Overwrite it?", err=True):
        raise typer.Exit(UNUSABLE)


def _with_local_model(model: str | None, offline: bool, target: str) -> Settings:
    """Load the settings, and download the model that they name, if they name one; of the embedded ones, keep one."""
    from service.text.language_codes import without_country

    given: dict[str, object] = {} if model is None else {"model": model}
    settings = load_settings(**given | ({"offline": True} if offline else {}))
    if settings.model is None:
        # The other one would be loaded in vain.
        into = tuple(each for each in EMBEDDED_MODELS if each.name.endswith(f"-{without_country(target)}"))
        return settings.model_copy(update={"models": into}) if into and settings.models == EMBEDDED_MODELS else settings
    return settings.model_copy(update={"model": local_model(settings.model, settings.hub_options)})


Engine = Callable[["TranslationJob"], AbstractAsyncContextManager["Stream"]]


def _engine(
    url: str | None, api_key: str | None, settings: Callable[[], Settings], job: "TranslationJob"
) -> AbstractAsyncContextManager["Stream"]:
    """Return the engine of a command: a server, or one that runs here."""
    from service.cli.translate import local_engine, server

    return (
        local_engine(settings(), job) if url is None else server(url, api_key or load_command_settings().api_key, job)
    )


def _check_together(given: Mapping[str, object], as_json: bool) -> None:
    """End the program if options were given that do not fit together."""
    if given["texts"] and given["--file"]:
        fail("give texts or files, not both")
    if given["--column"] and not given["--file"]:
        fail("--column needs --file")
    if given["--alternatives"] and not as_json:
        fail("--alternatives needs --json")


def _translate_documents(
    engine: Engine, job: "TranslationJob", path: Path, output: Path, options: "DocumentOptions"
) -> None:
    from service.cli.documents import DocumentCommand

    if job.options.get("scores"):
        fail("--json is for texts, not for documents")
    job.options["format"] = "html"
    is_directory = path.is_dir()

    async def run() -> bool:
        async with AsyncExitStack() as engines:
            command = DocumentCommand(lambda: engines.enter_async_context(engine(job)), job, options)
            if is_directory:
                return await command.translate_directory(path, output)
            await command.translate_file(path, output)
            return True

    if not asyncio.run(run()):
        raise typer.Exit(UNUSABLE)


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

    logging.basicConfig(level=logging.WARNING)
    report = examine(settings, seconds)
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(report)))
    else:
        typer.echo("\n".join(lines(report)))
    if report.problems:
        typer.echo("\n".join(f"dragoman: {problem}" for problem in report.problems), err=True)
        raise typer.Exit(UNUSABLE)


@app.command(name="import")
def import_(  # noqa: PLR0913  each is an option of the command
    model: Annotated[
        str,
        typer.Argument(
            help="Argos package, directory of a CTranslate2 or Hugging Face model, or a public model's name."
        ),
    ],
    output: Annotated[Path, typer.Option(help="Directory for the new checkpoint, for `serve --model`.")],
    source: Annotated[str | None, typer.Option(help="Source language, if the files do not name it.")] = None,
    target: Annotated[str | None, typer.Option(help="Target language, if the files do not name it.")] = None,
    max_mb: Annotated[
        int, typer.Option(min=1, help="Megabytes of the model's files, unpacked; a larger model is refused.")
    ] = DEFAULT_MAX_MEGABYTES,
    max_seconds: Annotated[int | None, typer.Option(min=1, help="Seconds after which the import is ended.")] = None,
    offline: OfflineOption = False,
) -> None:
    """Convert a model of another format to a checkpoint of Dragoman."""
    from model.checkpoint_config import LanguageHint

    hint = LanguageHint(source, target)
    path = parsed_model(model)
    try:
        if isinstance(path, Path):
            confine(max_seconds)
            # Before torch is loaded, which takes seconds.
            confine_memory(source_bytes(path, max_mb * MEGABYTE))
            from model.formats import import_checkpoint

            config = import_checkpoint(path, output, hint, max_mb * MEGABYTE)
        else:
            config = import_named(path, output, hint, offline=offline)
    except (HubError, CheckpointError, OSError) as error:
        fail(" ".join(str(error).split()), os.EX_TEMPFAIL if is_full_disk(error) else UNUSABLE)
    except MemoryError:
        fail(f"{path}: needs far more memory than a model of its size")
    languages = ", ".join(map(str, config.directions)) or f"{len(config.languages)} languages, every pair of them"
    typer.echo(f"{output}: {languages}")
