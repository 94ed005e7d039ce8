"""Documents in `dragoman translate`: a file, or all files of a directory, written anew in another language."""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from pathlib import Path

import typer

from service.cli.translate import InputError, Stream, TranslationJob, show_progress
from service.client import ClientError, Done
from service.client.events import translations_of
from service.documents.document import Document, open_document
from service.documents.formats import FORMATS, ArchiveReader, Conversion
from service.documents.limits import DocumentLimits
from service.documents.paragraph import ReadOptions, advance
from service.errors import ServiceError


def are_documents(files: Sequence[Path], output: Path | None) -> bool:
    """Return True if `--file` names documents or a directory, not texts that are written to `--output` one by one.

    Raises `InputError` for documents that cannot be written that way.
    """
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
    ending = path.suffix[1:].lower()
    if ending in FORMATS and isinstance(FORMATS[ending].reader, ArchiveReader | Conversion):
        return True
    # Texts are documents, too, but can also be shown as they are translated.
    return is_written and ending in FORMATS and ending != "txt"


class DocumentCommand:
    """The translation of documents by one engine or server."""

    def __init__(self, stream: Stream, job: TranslationJob, columns: Sequence[str] = ()) -> None:
        """`stream` translates HTML. `columns` are those of a table."""
        self._stream = stream
        self._job = job
        self._options = ReadOptions(target=job.target, columns=tuple(columns))

    async def translate_directory(self, path: Path, output: Path) -> bool:
        """Translate all documents of a directory. Returns True if none failed; a failure does not end the others'."""
        has_failed = False
        for found in sorted(_documents_in(path, output)):
            relative = found.relative_to(path)
            if found.suffix[1:].lower() not in FORMATS:
                typer.echo(f"{relative}: skipped, as its format is not known", err=True)
                continue
            try:
                (output / relative).parent.mkdir(parents=True, exist_ok=True)
                await self._translate(found, _result(found, output / relative), self._options_of(found))
            except (ServiceError, ClientError, InputError) as error:
                has_failed = True
                typer.echo(f"dragoman: {relative}: {str(error).removeprefix('file: ')}", err=True)
        return not has_failed

    async def translate_file(self, path: Path, output: Path) -> None:
        """Translate a document. Raises `InputError`, `ServiceError` and `ClientError`."""
        options = self._options
        if _is_converted(path):
            options = replace(options, output_format=output.suffix[1:].lower())
        await self._translate(path, output, options)

    def _options_of(self, path: Path) -> ReadOptions:
        """Return the options of a file among others: columns are only for tables."""
        has_columns = FORMATS[path.suffix[1:].lower()].has_columns
        return self._options if has_columns else replace(self._options, columns=())

    async def _translate(self, path: Path, output: Path, options: ReadOptions) -> None:
        try:
            document = open_document(path, path.name, options, DocumentLimits())
            characters = document.count().characters
            for warning in document.warnings:
                typer.echo(f"dragoman: {path.name}: {warning}", err=True)
            with show_progress(characters, self._job) as progress, _replaced(output) as temporary:
                await self._rewrite(document, temporary, progress)
        except OSError as error:
            raise InputError(f"{error.filename or path}: {error.strerror}") from None

    async def _rewrite(self, document: Document, output: Path, progress: Callable[[float], None]) -> None:
        rewriting = document.rewrite(output)
        translations: Sequence[str] | None = None
        while (batch := advance(rewriting, translations)) is not None:
            translations = await self._translations(batch.texts)
            progress(batch.characters)

    async def _translations(self, texts: Sequence[str]) -> list[str]:
        async with aclosing(self._stream([*texts])) as events:
            async for event in events:
                if isinstance(event, Done):
                    return [each.text for each in translations_of(event)]
        raise AssertionError("a stream ends with Done")


def _is_converted(path: Path) -> bool:
    """Return True for a document whose translation has another format."""
    known = FORMATS.get(path.suffix[1:].lower())
    return known is not None and isinstance(known.reader, Conversion)


def _result(path: Path, output: Path) -> Path:
    """Return the name for the translation of a document in a directory."""
    reader = FORMATS[path.suffix[1:].lower()].reader
    if not isinstance(reader, Conversion):
        return output
    ending = f".{reader.outputs[0]}"
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
    handle, name = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(output)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
