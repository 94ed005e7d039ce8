"""The command `dragoman adapt`: a served model learns from somebody's own translations."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.common import fail
from service.cli.pulling import local_checkpoint
from service.cli.training import SourceOption, TargetOption, log_to_terminal, reported
from service.errors import InvalidRequest
from service.settings import EMBEDDED_MODEL

if TYPE_CHECKING:
    from model.checkpoint_config import Direction
    from model.training.adapt import Adapted
    from model.training.corpora import Pair

app = typer.Typer()

_FILES = "tmx, xliff, po, tsv, csv, or a server's file of --suggestions; may be repeated."


@app.command()
def adapt(  # noqa: PLR0913  each is an option of the command
    texts: Annotated[list[Path], typer.Option(help=f"Your translations: {_FILES}")],
    output: Annotated[Path, typer.Option(help="Directory of the run; an unfinished run there is resumed.")],
    model: Annotated[
        Path,
        typer.Argument(
            help="Checkpoint, path or name of the model; without it, the embedded one.",
            parser=local_checkpoint,
            metavar="[MODEL]",
            show_default=False,
        ),
    ] = EMBEDDED_MODEL,
    general: Annotated[
        list[Path] | None,
        typer.Option(help=f"Translations of general text, which the model should not forget: {_FILES}"),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(help=f"Translations to compare the models on, too; none of them is learned: {_FILES}"),
    ] = None,
    minutes: Annotated[float, typer.Option(min=0.01, help="Most minutes of training.")] = 30.0,
    report: Annotated[
        Path | None, typer.Option(help="Write figures and sentences side by side to this HTML file.")
    ] = None,
    source: SourceOption = None,
    target: TargetOption = None,
    force: Annotated[bool, typer.Option("--force", help="Learn from fewer than 200 units, too.")] = False,
) -> None:
    """Train a model on your own translations, and say what that changed.

    The new model is OUTPUT/checkpoint, for `serve --model`.
    """
    from model.checkpoint_config import LanguageHint, load_config
    from model.training.adapt import AdaptOptions, Texts, write_whole
    from model.training.adapt import adapt as run
    from model.training.comparison import comparison_page
    from model.training.evaluate import find_direction
    from service.registry.importing import ensure_imported

    log_to_terminal()
    with reported():
        parent = ensure_imported(model, languages=LanguageHint(source, target))
        direction = find_direction(load_config(parent), LanguageHint(source, target))
        pairs = Texts(*(_read(files or (), direction) for files in (texts, general, data)))
        adapted = run(parent, direction, pairs, output, AdaptOptions(minutes, force, model.name))
        if adapted is None:
            typer.echo("stopped; the same command goes on")
            return
        _show(adapted)
        if report is not None:
            write_whole(report, [comparison_page(adapted.comparisons, direction)])


def _read(files: Sequence[Path], direction: "Direction") -> list["Pair"]:
    """Read the units of a direction, of several for one source the last; print how many were left out, and why."""
    from model.training.corpora import Pair
    from service.documents.units import UnitReport, read_units
    from service.text.language_codes import without_country

    if not files:
        return []
    languages = [without_country(code) for code in direction.codes()]
    report = UnitReport()
    found: dict[str, str] = {}
    try:
        for unit in (unit for path in files for unit in read_units(path, report)):
            sides = [unit.get(code, "") for code in languages]
            reason = "not in both languages of the model" if not all(sides) else "equal" if sides[0] == sides[1] else ""
            reason = reason or ("a source once more; its last translation counts" if sides[0] in found else "")
            if reason:
                report.units -= 1
                report.left[reason] += 1
            if all(sides) and sides[0] != sides[1]:
                found[sides[0]] = sides[1]
    except InvalidRequest as error:
        fail(str(error))
    for line in report.in_words():
        typer.echo(line)
    if not found:
        fail(f"{', '.join(map(str, files))}: no units from {direction.source} into {direction.target}")
    return [Pair(*each) for each in found.items()]


def _show(adapted: "Adapted") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("", "", "before", "after")
    for name, each in adapted.comparisons.items():
        for number, figures in enumerate(each.figures()):
            table.add_row("" if number else name, *figures)
    Console().print(table)
    typer.echo(f"checkpoint: {adapted.checkpoint}")
