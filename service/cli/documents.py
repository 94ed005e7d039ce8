"""Documents in `dragoman translate`: a file, or all files of a directory, written anew in another language."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import typer

from service.cli.translate import InputError, Stream, TranslationJob, show_progress
from service.client import ClientError, Done
from service.client.events import translations_of
from service.documents.document import open_document
from service.documents.formats import FORMATS, format_of
from service.documents.heading_anchors import anchors_by_page, page_name
from service.documents.limits import DocumentLimits
from service.documents.paragraph import ReadOptions, advance
from service.errors import ServiceError

_TEXTS: Final = ("", "text", "log")
"""Endings of plain texts, besides txt."""
_SITE_PAGES: Final = ("md", "markdown", "mdx", "html")
"""Pages that may link to headings of Markdown."""


@dataclass(frozen=True, kw_only=True)
class DocumentOptions:
    """The options of the command that are about documents."""

    columns: Sequence[str] = ()
    output_format: str = ""
    max_characters: int = DocumentLimits.max_characters
    marks_fuzzy: bool = True
    shows_report: bool = False
    is_dry_run: bool = False
    """Only say what would be translated."""


def are_documents(files: Sequence[Path], output: Path | None) -> bool:
    """Return True if `--file` names documents or a directory, not texts that are written to `--output` one by one.

    Raises `InputError` for documents that cannot be written that way, and `UnsupportedFormat`.
    """
    for each in files:
        if not each.is_dir() and each.suffix[1:].lower() not in (*FORMATS, *_TEXTS):
            format_of(each.name)
    named = [each for each in files if each.is_dir() or _is_document(each, is_written=output is not None)]
    if not named:
        return False
    if len(files) > 1:
        raise InputError(f"{named[0]}: give one document, or a directory of documents")
    if output is None:
        raise InputError(f"{named[0]}: a document needs --output")
    if named[0].is_dir() != output.is_dir() and output.exists():
        raise InputError(f"{output}: is {'no' if named[0].is_dir() else 'a'} directory")
    if named[0].resolve() == output.resolve():
        raise InputError(f"{output}: is the document itself; give another name")
    return True


def _is_document(path: Path, *, is_written: bool) -> bool:
    known = FORMATS.get(path.suffix[1:].lower())
    # Texts are documents, too, but can also be shown as they are translated.
    return known is not None and (is_written or known.is_archive or bool(known.outputs))


class DocumentCommand:
    """The translation of documents by one engine or server."""

    def __init__(self, start: Callable[[], Awaitable[Stream]], job: TranslationJob, options: DocumentOptions) -> None:
        """`start` starts what translates HTML; it is called for the first document to translate."""
        self._start = start
        self._stream: Stream | None = None
        self._job = job
        self._options = options
        self._limits = DocumentLimits(max_characters=options.max_characters)

    async def translate_directory(self, path: Path, output: Path) -> bool:
        """Translate the documents of a directory that changed since the last time.

        Returns True if there were documents, and none failed; a failure does not end the others'.
        """
        counts: Counter[str] = Counter()
        done = Finished(output, self._key())
        documents = sorted(_documents_in(path, output))
        pages = [each for each in documents if each.suffix[1:].lower() in _SITE_PAGES]
        anchors = anchors_by_page(
            (each.relative_to(path).as_posix(), each.read_text(errors="replace")) for each in pages
        )
        for found in documents:
            relative = found.relative_to(path)
            if found.suffix[1:].lower() not in FORMATS:
                counts["skipped"] += 1
                typer.echo(f"{relative}: skipped, as its format is not known", err=True)
                continue
            try:
                options = replace(self._read_options(found), anchors=anchors.get(page_name(str(relative)), frozenset()))
                counts[await self._translate_one(found, output / relative, done, str(relative), options)] += 1
            except (ServiceError, ClientError, InputError) as error:
                counts["failed"] += 1
                typer.echo(f"dragoman: {relative}: {str(error).removeprefix('file: ')}", err=True)
        typer.echo(", ".join(f"{count} {what}" for what, count in counts.items()) or "no documents", err=True)
        return not counts["failed"] and counts.total() > counts["skipped"]

    async def _translate_one(
        self, path: Path, output: Path, done: "Finished", relative: str, options: ReadOptions
    ) -> str:
        """Translate a document of a directory. Returns what was done."""
        result = _result(path, output, options)
        if done.has(path, relative, result, options.anchors):
            return "unchanged"
        if self._options.is_dry_run:
            characters = open_document(path, path.name, options, self._limits).count().characters
            typer.echo(f"{relative}: {characters} characters would be translated", err=True)
            return "to translate"
        output.parent.mkdir(parents=True, exist_ok=True)
        await self._translate(path, result, options)
        done.add(path, relative, options.anchors)
        return "translated"

    def _key(self) -> str:
        chosen = replace(self._options, shows_report=False, is_dry_run=False)
        return repr((self._job.source, self._job.target, sorted(self._job.options.items()), chosen))

    async def translate_file(self, path: Path, output: Path) -> None:
        """Translate a document. Raises `InputError`, `ServiceError` and `ClientError`."""
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{error.filename}: {error.strerror}") from None
        options = self._read_options(path, is_single=True)
        if _is_converted(path):
            options = replace(options, output_format=options.output_format or output.suffix[1:].lower())
        await self._translate(path, output, options)

    def _read_options(self, path: Path, *, is_single: bool = False) -> ReadOptions:
        """Return the options for a file; among others, columns are only for tables."""
        options = self._options
        has_columns = is_single or FORMATS[path.suffix[1:].lower()].has_columns
        return ReadOptions(
            target=self._job.target,
            source="" if self._job.source == "auto" else self._job.source,
            columns=tuple(options.columns) if has_columns else (),
            output_format=options.output_format if is_single or _is_converted(path) else "",
            marks_fuzzy=options.marks_fuzzy,
        )

    async def _translate(self, path: Path, output: Path, options: ReadOptions) -> None:
        try:
            document = open_document(path, path.name, options, self._limits)
            characters = document.count().characters
            self._stream = self._stream or await self._start()
            with show_progress(characters, self._job) as progress, _replaced(output) as temporary:
                rewriting, translations = document.rewrite(temporary), None
                while (batch := advance(rewriting, translations)) is not None:
                    translations = await self._translations(batch.texts)
                    progress(batch.characters)
            for warning in document.report.warnings:
                typer.echo(f"dragoman: {path.name}: {warning}", err=True)
            if self._options.shows_report:
                typer.echo("\n".join(f"{path}: {line}" for line in document.report.in_words()), err=True)
        except OSError as error:
            raise InputError(f"{error.filename or path}: {error.strerror}") from None

    async def _translations(self, texts: Sequence[str]) -> list[str]:
        assert self._stream is not None
        async with aclosing(self._stream([*texts])) as events:
            async for event in events:
                if isinstance(event, Done):
                    return [each.text for each in translations_of(event)]
        raise AssertionError("a stream ends with Done")


class Finished:
    """Documents that earlier runs translated, in a hidden file of the output: a hash of each, and of the options."""

    def __init__(self, output: Path, key: str) -> None:
        self._key = key
        self._file = output / ".dragoman.json"
        try:
            self._hashes: dict[str, str] = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self._hashes = {}

    def has(self, path: Path, relative: str, result: Path, anchors: frozenset[str]) -> bool:
        return self._hashes.get(relative) == self._hash(path, anchors) and result.exists()

    def add(self, path: Path, relative: str, anchors: frozenset[str]) -> None:
        self._hashes[relative] = self._hash(path, anchors)
        self._file.write_text(json.dumps(self._hashes, indent=0, sort_keys=True), encoding="utf-8")

    def _hash(self, path: Path, anchors: frozenset[str]) -> str:
        key = self._key + repr(sorted(anchors)) if anchors else self._key
        return hashlib.sha256(key.encode() + path.read_bytes()).hexdigest()


def _is_converted(path: Path) -> bool:
    """Return True for a document whose translation has another format."""
    known = FORMATS.get(path.suffix[1:].lower())
    return known is not None and bool(known.outputs)


def _result(path: Path, output: Path, options: ReadOptions) -> Path:
    """Return the name for the translation of a document in a directory."""
    outputs = FORMATS[path.suffix[1:].lower()].outputs
    if not outputs:
        return output
    ending = f".{options.output_format or outputs[0]}"
    return output.with_name(output.name + ending) if path.with_suffix(ending).exists() else output.with_suffix(ending)


def _documents_in(directory: Path, output: Path) -> Iterator[Path]:
    """Yield the files of a directory, without hidden ones, links, and the output if it lies in the directory."""
    written = output.resolve()
    for place, folders, files in os.walk(directory):
        folders[:] = [each for each in folders if not each.startswith(".") and Path(place, each).resolve() != written]
        for name in files:
            found = Path(place, name)
            if not name.startswith(".") and not found.is_symlink():
                yield found


@contextmanager
def _replaced(output: Path) -> Iterator[Path]:
    """Provide a file that replaces the output once it is complete; after an error nothing is left."""
    with TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as directory:
        temporary = Path(directory, output.name)
        yield temporary
        temporary.replace(output)
