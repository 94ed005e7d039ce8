"""The command `dragoman memory export`: units of several files, as one TMX."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from service.cli.common import fail
from service.errors import InvalidRequest

if TYPE_CHECKING:
    from service.documents.units import Unit, UnitReport

app = typer.Typer(no_args_is_help=True, help="Translation memories; `serve --memory FILE` answers from them.")


@app.callback()
def options() -> None:
    """Keep `export` a command of a group, which others may join."""


@app.command()
def export(
    files: Annotated[
        list[Path], typer.Argument(help="Memories: tmx, xliff, po, tsv, csv, or a server's file of --suggestions.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The TMX file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite --output.")] = False,
) -> None:
    """Join memories to one TMX without duplicates, and say what was left out and why."""
    from service.documents.units import UnitReport, read_units

    if output.exists() and not force:
        fail(f"{output} exists; --force overwrites it")
    report = UnitReport()
    part = output.with_name(f"{output.name}.part")
    try:
        # A file that is already served is replaced when the new one is whole.
        with part.open("w", encoding="utf-8") as sink:
            _write(sink, (unit for path in files for unit in read_units(path, report)), report)
        part.replace(output)
    except InvalidRequest as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename or output}: {error.strerror}")
    finally:
        part.unlink(missing_ok=True)
    for line in report.in_words():
        typer.echo(line)


def _write(sink: TextIO, units: Iterable["Unit"], report: "UnitReport") -> None:
    from service.documents.xml_text import escape_text

    sink.write(
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4"><header creationtool="dragoman" '
        'creationtoolversion="1" segtype="sentence" o-tmf="dragoman" adminlang="en" srclang="*all*" '
        'datatype="plaintext"/><body>\n'
    )
    written: set[int] = set()
    for unit in units:
        identity = hash(frozenset(unit.items()))
        if identity in written:
            report.units -= 1
            report.left["written already"] += 1
            continue
        written.add(identity)
        texts = (f'<tuv xml:lang="{code}"><seg>{escape_text(text)}</seg></tuv>' for code, text in unit.items())
        sink.write(f"<tu>{''.join(texts)}</tu>\n")
    sink.write("</body></tmx>\n")
