"""Checks of Dragoman's promises at a size that no test has time for: `python -m loadtest.promises --help`.

Each command starts a server of its own; flags after `--` are the server's (`-- --replicas 2`).
"""

import asyncio
import json
import lzma
import random
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from rich.progress import track

from loadtest.local_server import Server, StreamedTranslation, connect, run_server, stream, translate
from loadtest.sentences import LANGUAGES
from model.training.evaluate import DecodingOptions, load_translator, translate_all
from service.settings import EMBEDDED_MODEL
from service.text.splitter import Splitter

_LANES: Final = 64
_ARRAY: Final = 7  # sentences

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
FileArgument = Annotated[Path, typer.Argument(help="A sentence a line, or source<TAB>reference; plain or .xz.")]
FlagsArgument = Annotated[list[str] | None, typer.Argument(help="Flags of the server, after --.")]
OptionsOption = Annotated[str, typer.Option(help="More fields of each request, as JSON: '{\"beam_size\": 4}'.")]


@app.command()
def independence(
    file: FileArgument,
    flags: FlagsArgument = None,
    count: Annotated[int, typer.Option(help="Sentences.")] = 2000,
    options: OptionsOption = "{}",
) -> None:
    """Translate every sentence alone, then all mixed at random: the same texts and log-probabilities, bit for bit."""
    sentences = _sentences(file, count)
    body = LANGUAGES | json.loads(options)
    with run_server(flags or []) as server:
        alone, mixed, arrays = asyncio.run(_independence(server, sentences, body))
    for name, texts in (("in an array", arrays), ("streamed among others", [each.text for each in mixed])):
        equal = sum(one.text == other for one, other in zip(alone, texts, strict=True))
        typer.echo(f"{name}: {equal} of {len(alone)} texts as alone")
    bits = sum(one == other for one, other in zip(alone, mixed, strict=True))
    typer.echo(f"streamed among others: {bits} of {len(alone)} with the same log-probabilities, bit for bit")
    if mixed != alone or arrays != [each.text for each in alone]:
        raise typer.Exit(1)


@app.command()
def oracle(
    file: FileArgument,
    flags: FlagsArgument = None,
    count: Annotated[int, typer.Option(min=1, help="Sentences.")] = 500,
    beam_size: Annotated[int, typer.Option(help="Beam width; 1 is greedy.")] = 4,
    precision: Annotated[
        Literal["float32", "int8"], typer.Option(help="Precision of the oracle's linear layers.")
    ] = "float32",
    at_least: Annotated[float, typer.Option(help="Required share of equal texts; less than 1 for int8.")] = 1.0,
) -> None:
    """Compare the server's texts with offline decoding of the embedded model in PyTorch."""
    # The server would translate several sentences one by one.
    sentences = [each for each in _sentences(file, 2 * count) if _is_one_sentence(each)][:count]
    if len(sentences) < count:
        raise typer.BadParameter(
            f"of the first {2 * count} lines of {file} {len(sentences)} are single sentences, {count} are needed"
        )
    options = DecodingOptions(beam_size)
    expected = [each.text for each in translate_all(load_translator(EMBEDDED_MODEL, precision), sentences, options)]
    with _uncut_model() as model, run_server(["--model", str(model), *(flags or [])]) as server:
        served = asyncio.run(_translate_all(server, sentences, LANGUAGES | {"beam_size": beam_size}))
    equal = sum(one == other for one, other in zip(expected, served, strict=True))
    typer.echo(f"{equal} of {count} texts are the oracle's")
    if equal / count < at_least:
        raise typer.Exit(1)


@contextmanager
def _uncut_model() -> Iterator[Path]:
    """Yield a copy of the embedded model that has no limit of a sentence: offline decoding cuts none either."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(shutil.copytree(EMBEDDED_MODEL, Path(directory) / EMBEDDED_MODEL.name))
        described = json.loads((copy / "config.json").read_bytes())
        del described["max_sentence_tokens"]
        (copy / "config.json").write_text(json.dumps(described), encoding="utf-8")
        yield copy


def _is_one_sentence(line: str) -> bool:
    segments = list(Splitter(lambda segment: True).split(line, "en"))
    return len(segments) == 1 and segments[0].model_input().text == line


def _sentences(file: Path, count: int) -> list[str]:
    """Return the first column of the first `count` lines."""
    opener = lzma.open if file.suffix == ".xz" else open
    try:
        with opener(file, "rt", encoding="utf-8") as lines:
            found = [source for line in lines if (source := line.rstrip("\n").partition("\t")[0].strip())]
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    if len(found) < count:
        raise typer.BadParameter(f"{file} has {len(found)} sentences, {count} are needed")
    return found[:count]


async def _translate_all(server: Server, sentences: Sequence[str], body: dict[str, Any]) -> list[str]:
    async with connect(server) as client:
        return await translate(client, list(sentences), body)


async def _independence(
    server: Server, sentences: Sequence[str], body: dict[str, Any]
) -> tuple[list[StreamedTranslation], list[StreamedTranslation], list[str]]:
    async with connect(server) as client:
        alone = [await stream(client, sentence, body) for sentence in track(sentences, "alone")]
        order = list(range(len(sentences)))
        random.Random(1).shuffle(order)
        mixed: dict[int, StreamedTranslation] = {}
        arrays: dict[int, str] = {}

        async def stream_one(index: int) -> None:
            mixed[index] = await stream(client, sentences[index], body)

        async def array(indices: list[int]) -> None:
            texts = await translate(client, [sentences[index] for index in indices], body)
            arrays.update(zip(indices, texts, strict=True))

        jobs: list[Callable[[], Awaitable[None]]] = [partial(stream_one, index) for index in order]
        jobs += [partial(array, order[start : start + _ARRAY]) for start in range(0, len(order), _ARRAY)]
        random.Random(2).shuffle(jobs)
        await _in_lanes(jobs, "in random company")
    return alone, [mixed[index] for index in sorted(order)], [arrays[index] for index in sorted(order)]


async def _in_lanes(jobs: Sequence[Callable[[], Awaitable[None]]], description: str) -> None:
    queue = iter(track(jobs, description))

    async def lane() -> None:
        for job in queue:
            await job()

    await asyncio.gather(*(lane() for _ in range(_LANES)))


if __name__ == "__main__":
    app()
