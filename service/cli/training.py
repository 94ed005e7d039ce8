"""`dragoman train | distill | evaluate | robustness`: commands that load torch, and need no server."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from service.cli.common import ApiKeyOption, UrlOption, fail
from service.cli.pulling import local_checkpoint
from service.cli.settings_options import load_command_settings
from service.settings import EMBEDDED_MODEL

# As in model.training.evaluate, which would load torch.
Precision = Literal["float32", "int8"]
Tokenize = Literal["13a", "intl", "moses"]

app = typer.Typer()


@app.command()
def prepare(
    config: Annotated[Path, typer.Argument(help="The experiment (TOML).")],
    data: Annotated[Path, typer.Option(help="Directory of the corpora; a path that is not in it is taken as it is.")],
    output: Annotated[Path, typer.Option(help="Directory for the pack.")],
) -> None:
    """Filter, deduplicate and tokenise training text once, into a pack that `train` takes on any machine."""
    from model.training.config import TrainConfig
    from model.training.prepare import prepare as run

    log_to_terminal()
    with reported():
        pack = run(TrainConfig.from_toml(config), data, output)
    typer.echo(f"{output}: {len(pack.train)} pairs, {len(pack.train.ids) / 1e6:.1f} million tokens")


@app.command()
def train(  # noqa: PLR0913  each is an option of the command
    config: Annotated[Path, typer.Argument(help="The experiment (TOML).")],
    data: Annotated[Path, typer.Option(help="A pack (`dragoman prepare`), or the directory of the corpora.")],
    output: Annotated[Path, typer.Option(help="Directory of the run; an unfinished run there is resumed.")],
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...")] = "cpu",
    minutes: Annotated[
        float | None, typer.Option(min=0.01, help="Minutes of training; with --decay-now, of the decay.")
    ] = None,
    decay_now: Annotated[
        bool, typer.Option("--decay-now", help="Let a run's learning rate fall to 0 from here, and end it.")
    ] = False,
    workers: Annotated[int, typer.Option(min=0, help="Processes that pack batches meanwhile.")] = 1,
) -> None:
    """Train a model from parallel text."""
    from model.training.config import TrainConfig
    from model.training.train import RunOptions
    from model.training.train import train as run

    log_to_terminal()
    with reported():
        options = RunOptions(device, minutes, decay_now, workers)
        checkpoint = run(TrainConfig.from_toml(config), data, output, options)
    typer.echo(f"checkpoint: {checkpoint}")


ModelOption = Annotated[
    Path,
    typer.Option(
        help="Checkpoint directory, or a public model's name.", parser=local_checkpoint, metavar="<path or name>"
    ),
]
BeamOption = Annotated[int, typer.Option(min=1, help="Hypotheses kept; 1 is greedy.")]
LengthPenaltyOption = Annotated[float, typer.Option(help="Scores are divided by length to this power.")]
PrecisionOption = Annotated[Precision, typer.Option(help="Of the linear layers.")]
DeviceOption = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...")]
SourceOption = Annotated[str | None, typer.Option(help="Source language, where the model has several.")]
TargetOption = Annotated[str | None, typer.Option(help="Target language, where the model has several.")]


@app.command()
def distill(  # noqa: PLR0913  each is an option of the command
    config: Annotated[Path, typer.Argument(help="The experiment (TOML) whose training text is translated.")],
    teacher: Annotated[
        Path,
        typer.Option(
            help="Checkpoint directory, or public name, of the model that translates it.",
            parser=local_checkpoint,
            metavar="<path or name>",
        ),
    ],
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

    log_to_terminal()
    options = TeacherOptions(DecodingOptions(beam_size=beam_size), precision, device)
    with reported():
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
    from model.checkpoint_config import LanguageHint
    from model.training.evaluate import DecodingOptions, EvaluationOptions
    from model.training.evaluate import evaluate as run

    decoding = DecodingOptions(beam_size, length_penalty)
    with reported():
        result = run(
            model,
            test,
            EvaluationOptions(
                decoding, precision, device, LanguageHint(source, target), limit, lowercase, lowercase_source, tokenize
            ),
        )
        if hypotheses is not None:
            lines = (" ".join(hypothesis.splitlines()) for hypothesis in result.hypotheses)
            hypotheses.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    typer.echo(result.bleu)
    typer.echo(result.chrf)
    signs = result.signs | result.reference_signs
    counts = (f"{sign} {result.signs[sign]} ({result.reference_signs[sign]})" for sign in sorted(signs))
    typer.echo(f"Signs of bad translations (of the references): {', '.join(counts) or 'none'}")
    typer.echo(f"{result.tokens} tokens in {result.seconds:.1f} s, {result.tokens_per_second:.0f} tokens/s")


@app.command()
def robustness(  # noqa: PLR0913  each is an option of the command
    model: ModelOption = EMBEDDED_MODEL,
    beam_size: BeamOption = 1,
    precision: PrecisionOption = "float32",
    source: SourceOption = None,
    target: TargetOption = None,
    cases: Annotated[str, typer.Option(help="robustness, or first-contact: what people type first.")] = "robustness",
    url: UrlOption = None,
    api_key: ApiKeyOption = None,
) -> None:
    """Test a model, alone or in a running server, on kinds of everyday input; print a table of pass rates."""
    from model.checkpoint_config import Direction, LanguageHint
    from model.training.evaluate import DecodingOptions, load_translator, translate_all
    from model.training.robustness import markdown, run
    from model.training.robustness_cases import cases_path, load_cases
    from service.client import Client

    def by_checkpoint(texts: list[str]) -> list[str]:
        options = DecodingOptions(beam_size=beam_size)
        return [translation.text for translation in translate_all(translator, texts, options)]

    def by_server(texts: list[str]) -> list[str]:
        assert url is not None
        with Client(url, api_key=api_key or load_command_settings().api_key) as client:
            return [
                client.translate(text, source=direction.source, target=direction.target, beam_size=beam_size).text
                for text in texts
            ]

    with reported():
        if url is None:
            translator = load_translator(model, precision, LanguageHint(source, target))
            direction = translator.direction
        elif source and target:
            direction = Direction(source=source, target=target)
        else:
            raise ValueError("--url needs --source and --target, too")
        results = run(load_cases(cases_path(direction, cases)), by_checkpoint if url is None else by_server)
    typer.echo(markdown(results))


def log_to_terminal() -> None:
    """Lines above the progress bar, where there is one."""
    from rich.console import Console
    from rich.logging import RichHandler

    if sys.stderr.isatty():
        handler = RichHandler(console=Console(stderr=True), show_path=False, show_level=False)
        logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[handler])
    else:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")


@contextmanager
def reported() -> Iterator[None]:
    """Report what is wrong with a file, a checkpoint or a setting in one line, and end the program."""
    from model.training.report import MissingExtraError
    from model.training.state import TrainingError
    from service.client import ClientError

    try:
        yield
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
    except (ValueError, TrainingError, MissingExtraError, ClientError) as error:
        fail(str(error))
