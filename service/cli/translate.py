"""The command `dragoman translate`: texts, standard input or files, translated by a local engine or by a server."""

import asyncio
import json
import os
import stat
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TextIO

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from service.client import AsyncClient, Detected, Done, Event, Options, Segment, Start, Token
from service.client.events import event_of, translations_of
from service.settings import Settings
from service.supervisor.fork_server import Zygote
from service.text.glossary import EntriesError, read_entries

# Files are sent in requests of about this size, in whole lines: enough to fill a batch, far below a server's limit.
_REQUEST_CHARACTERS: Final = 10_000
_REQUEST_TEXTS: Final = 100
_READ_BYTES: Final = 1 << 16

Stream = Callable[[str | list[str]], AsyncGenerator[Event]]
"""A function that translates a text, or several in one request."""


@dataclass(frozen=True, kw_only=True)
class TranslationJob:
    """The languages and options of a translation, and its output."""

    source: str
    target: str
    options: Options = field(default_factory=Options)
    as_json: bool = False
    """Write a JSON object for each text, or each line of a file."""
    output: TextIO = sys.stdout
    progress: bool = False


class InputError(Exception):
    """An input file that cannot be read; the message is written for people."""


@asynccontextmanager
async def local_engine(settings: Settings, job: TranslationJob) -> AsyncIterator[Stream]:
    """Run a local engine for as long as the context lasts.

    Raises `ServiceError`, `CheckpointError` and `UnusableSettingError`.
    """
    zygote = Zygote("warning", settings.log_format)
    zygote.launch()  # it imports PyTorch while this process imports the server
    from service.api.request_body import validated
    from service.api.sse import EVENT_NAMES, payload
    from service.api.translate_request import TranslateRequest
    from service.server.composition import build_service

    # At a terminal only the translation counts: no informational log records, and no API keys.
    for_one = {"log_level": "warning", "replicas": 1, "keys": None, "redis_url": None}
    try:
        service = build_service(settings.model_copy(update=for_one), zygote)
    except BaseException:
        zygote.discard()
        raise

    async def stream(q: str | list[str]) -> AsyncGenerator[Event]:
        fields = {"q": q, "source": job.source, "target": job.target, **job.options}
        request = validated(TranslateRequest, lambda: TranslateRequest.model_validate(fields))
        options = request.options(service.translator.limits.max_beam_size)
        shape = request.shape()
        translation = service.translator.start(request.texts(), request.source, request.target, options)
        try:
            async for events in translation.events():
                for event in events:
                    # Encoded and decoded, so that the event is exactly what a server would send.
                    decoded = event_of(EVENT_NAMES[type(event)], msgspec.json.encode(payload(event, shape)))
                    assert decoded is not None
                    yield decoded
        finally:
            translation.close()

    console = Console(stderr=True)
    service.library.start()
    try:
        with console.status("Starting the engine") if console.is_terminal else nullcontext():
            await service.library.wait_until_tried()
        yield stream
    finally:
        await service.library.stop()
        zygote.discard()


@asynccontextmanager
async def server(url: str, api_key: str | None, job: TranslationJob) -> AsyncIterator[Stream]:
    """Connect to a running server; its streams raise `ClientError`."""
    async with AsyncClient(url, api_key=api_key) as client:
        yield lambda q: client.stream(q, source=job.source, target=job.target, **job.options)


def read(files: Sequence[Path], *, by_line: bool) -> list[str]:
    """Read files as whole texts with their line ends, or line by line. Raises `InputError`."""
    texts = [_read(path) for path in files]
    return [line for text in texts for line in text.splitlines()] if by_line else texts


async def _standard_input() -> AsyncIterator[str]:
    """Yield what has come, in whole lines: somebody may wait for a translation before writing on."""
    try:
        mode = os.fstat(descriptor := sys.stdin.fileno()).st_mode
    except OSError:  # it is no file
        mode = 0
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or sys.stdin.isatty()):
        yield _read(None)
        return
    if sys.stdin.isatty():
        print("Type lines of text; Ctrl-D ends.", file=sys.stderr)
    begun = b""
    while data := await _next_bytes(descriptor):
        lines, newline, begun = (begun + data).rpartition(b"\n")
        if newline:
            yield _decoded(lines + newline, "standard input")
    if begun:
        yield _decoded(begun, "standard input")


async def _next_bytes(descriptor: int) -> bytes:
    """Wait for input, which a thread could not do: Ctrl-C would wait for its end. Returns b"" at the end."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, _READ_BYTES)


def _read(path: Path | None) -> str:
    name = "standard input" if path is None else str(path)
    try:
        content = sys.stdin.buffer.read() if path is None else path.read_bytes()
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}") from None
    return _decoded(content, name)


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InputError(f"{name} is not UTF-8") from None


def read_glossary(path: Path) -> dict[str, str]:
    """Read a glossary: CSV if the name ends with .csv, else TSV. Raises `InputError`."""
    try:
        return read_entries(_read(path), "csv" if path.suffix.lower() == ".csv" else "tsv")
    except EntriesError as error:
        raise InputError(f"{path}: {error}") from None


async def translate(stream: Stream, texts: Sequence[str] | None, job: TranslationJob) -> bool:
    """Translate texts one after the other, line by line, and write each event as it arrives.

    None stands for standard input. Returns True if there was a text. Raises `InputError`.
    """
    write = _write_json if job.as_json else _TextWriter().write
    found = False
    with show_progress(sum(map(len, texts or ())), job) as advance:
        async for batch in _batches(texts, job):
            found = found or any(batch)
            for q in _grouped(batch) if job.as_json else _requests(batch):
                async with aclosing(stream(q)) as events:
                    await write(q, events, job.output, advance)
    return found


async def _batches(texts: Sequence[str] | None, job: TranslationJob) -> AsyncIterator[Sequence[str]]:
    """Yield the texts that are there at the same time."""
    if texts is not None:
        yield texts
        return
    async for text in _standard_input():
        yield text.splitlines() if job.as_json else [text]


class _TextWriter:
    """Writes translations as they come, and the detected language on standard error whenever it changes."""

    def __init__(self) -> None:
        self._language: str | None = None

    async def write(
        self, q: str | list[str], events: AsyncIterator[Event], output: TextIO, advance: Callable[[float], None]
    ) -> None:
        left = len(q)
        async for event in events:
            match event:
                case Start(detectedLanguage=Detected(language=language, confidence=confidence)):
                    if language != self._language:
                        print(f"detected: {language} ({confidence:.0f} %)", file=sys.stderr)
                    self._language = language
                case Token(text=text):
                    output.write(text)
                    output.flush()
                case Segment(text=text):
                    # A translation is about as long as its text; the end corrects the difference.
                    advance(step := min(len(text), left))
                    left -= step
                case Done():
                    advance(left)


async def _write_json(
    q: str | list[str], events: AsyncIterator[Event], output: TextIO, advance: Callable[[float], None]
) -> None:
    async for event in events:
        if isinstance(event, Done):
            for text, translation in zip(q, translations_of(event), strict=True):
                answer: dict[str, object] = {"text": text, "translatedText": translation.text}
                if event.scores is not None:
                    answer["score"] = translation.score
                if translation.detected is not None:
                    answer["detectedLanguage"] = msgspec.to_builtins(translation.detected)
                if translation.alternatives:
                    answer["alternatives"] = [msgspec.to_builtins(each) for each in translation.alternatives]
                output.write(json.dumps(answer, ensure_ascii=False) + "\n")
            output.flush()
            advance(sum(map(len, q)))


def _requests(texts: Iterable[str]) -> Iterator[str]:
    """Split texts into requests of whole lines: sentences do not cross lines."""
    for text in texts:
        yield from map("".join, _grouped(text.splitlines(keepends=True)))


def _grouped(texts: Iterable[str]) -> Iterator[list[str]]:
    group: list[str] = []
    characters = 0
    for text in texts:
        if group and (characters + len(text) > _REQUEST_CHARACTERS or len(group) == _REQUEST_TEXTS):
            yield group
            group, characters = [], 0
        group.append(text)
        characters += len(text)
    if group:
        yield group


@contextmanager
def show_progress(characters: int, job: TranslationJob) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on standard error, if the job has one."""
    columns = (TextColumn("{task.percentage:>3.0f} %"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not job.progress) as progress:
        task = progress.add_task("", total=characters)
        yield lambda amount: progress.advance(task, amount)
        progress.update(task, completed=characters)
