"""`dragoman serve | translate | doctor | keys | import | train | distill | evaluate | robustness | bench`."""

import asyncio
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Literal, NoReturn, TextIO

import typer
from pydantic import ValidationError
from pydantic_settings import CliApp, SettingsError

from model.manifest import CheckpointError
from service.access.command import app as keys_app
from service.errors import ServiceError
from service.settings import EMBEDDED_MODEL, CommandSettings, Settings, UnusableSettingError

# As in model.training.evaluate, which would load torch.
Precision = Literal["float32", "int8"]
Tokenize = Literal["13a", "intl", "moses"]

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Self-hosted machine translation that streams.")
app.add_typer(keys_app, name="keys")


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
    except (CheckpointError, UnusableSettingError) as error:
        _fail(str(error))
    # Bound before an engine is started: a port in use is said at once.
    try:
        bound = server.config.bind_socket()
    except SystemExit:  # uvicorn has logged the reason
        _fail(f"host, port: cannot listen on {settings.host}, port {settings.port}")
    server.run(sockets=[bound])
    if failed or not server.started:
        raise typer.Exit(1)


def _settings(arguments: list[str]) -> Settings:
    """Flags over environment over defaults; ends the program with the name of a wrong one."""
    try:
        return CliApp.run(Settings, cli_args=arguments)
    except ValidationError as error:
        # Defaults that depend on a wrong value are no mistakes of their own.
        mistakes = [each for each in error.errors() if each["type"] != "default_factory_not_called"]
        problems = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in mistakes]
        _fail("; ".join(problems))
    except SettingsError as error:
        _fail(str(error))


UrlOption = Annotated[str | None, typer.Option(help="A running server; without it, the model runs here.")]
ApiKeyOption = Annotated[
    str | None, typer.Option(help="For a server that wants one; or DRAGOMAN_API_KEY, which others cannot see.")
]


@app.command()
def translate(  # noqa: PLR0913  each is an option of the command
    texts: Annotated[list[str] | None, typer.Argument(help="Texts; standard input if there are none.")] = None,
    source: Annotated[str, typer.Option(help="Language of the text; auto detects it.")] = "en",
    target: Annotated[str, typer.Option(help="Language to translate into.")] = "fr",
    files: Annotated[list[Path] | None, typer.Option("--file", "-f", help="Translate this file; several too.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="An object for each text, or each line of a file.")] = False,
    alternatives: Annotated[int, typer.Option(min=0, help="Other translations too, with --json.")] = 0,
    beam_size: Annotated[int | None, typer.Option(min=1, help="Hypotheses of beam search; 1 is greedy.")] = None,
    glossary: Annotated[
        Path | None, typer.Option(help="File of terms and their translations, a pair each line: TSV, or .csv.")
    ] = None,
    url: UrlOption = None,
    api_key: ApiKeyOption = None,
    model: Annotated[Path | None, typer.Option(help="Checkpoint directory, when the model runs here.")] = None,
) -> None:
    """Translate, printing each token as it comes; lines stay lines."""
    from service.client import ClientError, Options
    from service.terminal import InputError, Job, local_engine, read, read_glossary, server
    from service.terminal import translate as run

    if texts and files:
        _fail("give texts or files, not both")
    if alternatives and not as_json:
        _fail("--alternatives has no place in plain text: add --json")
    options = Options(scores=True, alternatives=alternatives) if as_json else Options()
    if beam_size is not None:
        options["beam_size"] = beam_size

    async def show(sink: TextIO) -> None:
        # A bar and tokens on the same terminal would overwrite each other.
        progress = bool(files) and sys.stderr.isatty() and not sink.isatty()
        job = Job(source=source, target=target, options=options, as_json=as_json, output=sink, progress=progress)
        settings = [] if model is None else ["--model", str(model)]
        engine = (
            server(url, api_key or CommandSettings().api_key, job)
            if url is not None
            else local_engine(_settings(settings), job)
        )
        async with engine as stream:
            await run(stream, work, job)

    try:
        if glossary is not None:
            options["glossary"] = read_glossary(glossary)
        work = [text if as_json else f"{text}\n" for text in texts] if texts else read(files, by_line=as_json)
        with nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8", newline="") as sink:
            asyncio.run(show(sink))
    except (ServiceError, ClientError, CheckpointError, UnusableSettingError, InputError) as error:
        _fail(str(error))
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python must not try to flush the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        _fail(f"{output or 'standard output'}: {error.strerror}")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def doctor(
    context: typer.Context,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to translate.")] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="The report as one object.")] = False,
) -> None:
    """Say what would run here, and try it out; takes the settings of `dragoman serve`. Fails if something is broken."""
    import msgspec

    from service.doctor import examine, lines

    logging.basicConfig(level=logging.ERROR)
    report = examine(_settings(context.args), seconds)
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(report)))
    else:
        typer.echo("\n".join(lines(report)))
    if report.problems:
        typer.echo("\n".join(f"dragoman: {problem}" for problem in report.problems), err=True)
        raise typer.Exit(1)


@app.command(name="import")
def import_(
    path: Annotated[Path, typer.Argument(help="Argos package, CTranslate2 or Hugging Face directory.")],
    output: Annotated[Path, typer.Option(help="Where to write the checkpoint: a directory for `serve --model`.")],
    source: Annotated[str | None, typer.Option(help="Source language, where the files do not say it.")] = None,
    target: Annotated[str | None, typer.Option(help="Target language, where the files do not say it.")] = None,
) -> None:
    """Write a checkpoint of another format as one of ours."""
    from model.formats import import_checkpoint
    from model.manifest import Wanted

    try:
        config = import_checkpoint(path, output, Wanted(source, target))
    except (CheckpointError, OSError) as error:
        _fail(str(error))
    languages = ", ".join(map(str, config.directions)) or f"{len(config.languages)} languages, each into each"
    typer.echo(f"{output}: {languages}")


@app.command()
def train(
    config: Annotated[Path, typer.Argument(help="The experiment (TOML).")],
    data: Annotated[Path, typer.Option(help="Directory of the corpora; a path that is not in it is taken as it is.")],
    output: Annotated[Path, typer.Option(help="Directory of the run; an unfinished run there is resumed.")],
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...")] = "cpu",
    tensorboard: Annotated[bool, typer.Option(help="Also write for TensorBoard, in OUTPUT/tensorboard.")] = False,
) -> None:
    """Train a model from parallel text; `torchrun ... -m service train` uses several processes."""
    from model.training.config import TrainConfig
    from model.training.train import train as run

    _log_to_terminal()
    with _reported():
        checkpoint = run(TrainConfig.from_toml(config), data, output, device, tensorboard)
    typer.echo(f"checkpoint: {checkpoint}")


ModelOption = Annotated[Path, typer.Option(help="Checkpoint directory.")]
BeamOption = Annotated[int, typer.Option(min=1, help="Hypotheses kept; 1 is greedy.")]
LengthPenaltyOption = Annotated[float, typer.Option(help="Scores are divided by length to this power.")]
PrecisionOption = Annotated[Precision, typer.Option(help="Of the linear layers.")]
DeviceOption = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...")]
SourceOption = Annotated[str | None, typer.Option(help="Source language, where the model has several.")]
TargetOption = Annotated[str | None, typer.Option(help="Target language, where the model has several.")]


@app.command()
def distill(  # noqa: PLR0913  each is an option of the command
    config: Annotated[Path, typer.Argument(help="The experiment (TOML) whose training text is translated.")],
    teacher: Annotated[Path, typer.Option(help="Checkpoint directory of the model that translates it.")],
    data: Annotated[Path, typer.Option(help="Directory of the corpora.")],
    output: Annotated[Path, typer.Option(help="Directory for the new corpora; an unfinished call goes on.")],
    beam_size: BeamOption = 4,
    precision: PrecisionOption = "float32",
    device: DeviceOption = "cpu",
) -> None:
    """Let a larger model translate the training text of a smaller one."""
    from model.training.config import TrainConfig
    from model.training.distill import TeacherOptions
    from model.training.distill import distill as run
    from model.training.evaluate import DecodingOptions

    _log_to_terminal()
    options = TeacherOptions(DecodingOptions(beam_size=beam_size), precision, device)
    with _reported():
        for path in run(TrainConfig.from_toml(config), teacher, data, output, options):
            typer.echo(path)


@app.command()
def evaluate(  # noqa: PLR0913  each is an option of the command
    test: Annotated[Path, typer.Argument(help="source<TAB>reference lines, plain or .xz.")],
    model: ModelOption = EMBEDDED_MODEL,
    beam_size: BeamOption = 1,
    length_penalty: LengthPenaltyOption = 1.0,
    precision: PrecisionOption = "float32",
    device: DeviceOption = "cpu",
    source: SourceOption = None,
    target: TargetOption = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first lines.")] = None,
    lowercase: Annotated[bool, typer.Option(help="Case does not count.")] = False,
    lowercase_source: Annotated[bool, typer.Option(help="For a model of lower-cased text.")] = False,
    tokenize: Annotated[Tokenize, typer.Option(help="For BLEU: sacrebleu's, or Moses' rules.")] = "13a",
    hypotheses: Annotated[Path | None, typer.Option(help="Write the translations here, a line each.")] = None,
) -> None:
    """Score a checkpoint: sacrebleu's BLEU and chrF with their signatures."""
    from model.manifest import Wanted
    from model.training.evaluate import DecodingOptions, EvaluationOptions
    from model.training.evaluate import evaluate as run

    decoding = DecodingOptions(beam_size, length_penalty)
    with _reported():
        result = run(
            model,
            test,
            EvaluationOptions(
                decoding, precision, device, Wanted(source, target), limit, lowercase, lowercase_source, tokenize
            ),
        )
        if hypotheses is not None:
            lines = (" ".join(hypothesis.splitlines()) for hypothesis in result.hypotheses)
            hypotheses.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    typer.echo(result.bleu)
    typer.echo(result.chrf)
    typer.echo(f"{result.tokens} tokens in {result.seconds:.1f} s, {result.tokens_per_second:.0f} tokens/s")


@app.command()
def robustness(  # noqa: PLR0913  each is an option of the command
    model: ModelOption = EMBEDDED_MODEL,
    beam_size: BeamOption = 1,
    precision: PrecisionOption = "float32",
    source: SourceOption = None,
    target: TargetOption = None,
    url: UrlOption = None,
    api_key: ApiKeyOption = None,
) -> None:
    """Which kinds of everyday input a model survives, alone or in a running server: a table of cases and pass rates."""
    from model.manifest import Direction, Wanted
    from model.training.evaluate import DecodingOptions, load_translator, translate_all
    from model.training.robustness import cases_path, load_cases, markdown, run
    from service.client import Client

    def by_checkpoint(texts: list[str]) -> list[str]:
        options = DecodingOptions(beam_size=beam_size)
        return [translation.text for translation in translate_all(translator, texts, options)]

    def by_server(texts: list[str]) -> list[str]:
        assert url is not None
        with Client(url, api_key=api_key or CommandSettings().api_key) as client:
            return [
                client.translate(text, source=direction.source, target=direction.target, beam_size=beam_size).text
                for text in texts
            ]

    with _reported():
        if url is None:
            translator = load_translator(model, precision, Wanted(source, target))
            direction = translator.direction
        elif source and target:
            direction = Direction(source=source, target=target)
        else:
            raise ValueError("--url needs --source and --target, too")
        results = run(load_cases(cases_path(direction)), by_checkpoint if url is None else by_server)
    typer.echo(markdown(results))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def bench(context: typer.Context) -> None:
    """Measure the engine beside others; `dragoman bench --help` lists the options."""
    try:
        from loadtest.compare.command import command
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "loadtest":
            raise
        _fail("the benchmark is not installed here; it comes with `pip install 'dragoman[load]'`, not with the image")
    command.main(args=context.args, prog_name="dragoman bench")


def _log_to_terminal() -> None:
    """Lines above the progress bar, where there is one."""
    from rich.console import Console
    from rich.logging import RichHandler

    if sys.stderr.isatty():
        handler = RichHandler(console=Console(stderr=True), show_path=False, show_level=False)
        logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[handler])
    else:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")


@contextmanager
def _reported() -> Iterator[None]:
    """Says what is wrong with a file, a checkpoint or a setting, and ends the program."""
    from model.training.report import MissingExtraError
    from model.training.trainer import TrainingError
    from service.client import ClientError

    try:
        yield
    except (ValueError, OSError, TrainingError, MissingExtraError, ClientError) as error:
        _fail(str(error))


def _fail(message: str) -> NoReturn:
    typer.echo(f"dragoman: {message}", err=True)
    raise typer.Exit(2)
