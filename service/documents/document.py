"""A document on disk: counted, and written anew with the translations of its paragraphs."""

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import regex

from service.documents.archive import Archive, open_archive, write_member
from service.documents.formats import FORMATS, DocumentFormat, TextReader, check_beginning, format_of
from service.documents.limits import Count, DocumentLimits
from service.documents.paragraph import Paragraph, Piece, ReadOptions, Translating, paragraphs, render, translating
from service.documents.report import Report
from service.errors import InvalidRequest, TooLong

if TYPE_CHECKING:
    from service.documents.office import ArchiveReader

_BEGINNING: Final = 8


@dataclass
class Document:
    """A file whose name and beginning fit a format. At most one of its parts is in memory at a time.

    All methods raise `InvalidRequest` and `TooLong`, with `file` as their field.
    """

    path: Path
    format: DocumentFormat
    options: ReadOptions
    limits: DocumentLimits
    report: Report = field(default_factory=Report)
    """The fate of the texts; whole after `rewrite`."""

    @property
    def result_format(self) -> DocumentFormat:
        """The format of the translation."""
        outputs = self.format.outputs
        return FORMATS[self.options.output_format or outputs[0]] if outputs else self.format

    def count(self) -> Count:
        """Read the whole document, and count its paragraphs and characters."""
        count = Count(self.limits)
        for _ in self._process(None, count):
            pass
        return count

    def rewrite(self, output: Path) -> Translating:
        """Write the document anew: a generator that yields batches and is sent their translations."""
        for part in self._process(output, Count(self.limits)):
            yield from translating(part)

    def _process(self, output: Path | None, count: Count) -> Iterator[Sequence[Paragraph]]:
        """Yield the paragraphs of each part. The part is written when the next one is asked for."""
        reader = self.format.reader
        if callable(reader):
            with TemporaryDirectory(dir=None if output is None else output.parent) as directory:
                converted = Path(directory, f"converted.{self.result_format.name}")
                self.report.warnings = [*reader(self.path, converted, self.options)]
                yield from replace(self, path=converted, format=self.result_format)._process(output, count)
        elif isinstance(reader, TextReader):
            if (size := self.path.stat().st_size) > self.limits.max_part_bytes:
                raise TooLong("file", f"{size} bytes of text, the limit is {self.limits.max_part_bytes}")
            part = _Part(reader, self.path.read_bytes(), self.options, count)
            yield part.paragraphs
            if output is not None:
                output.write_bytes(part.written(self.report))
        else:
            with open_archive(self.path, self.limits) as archive:
                _check_archive(archive, self.format, reader)
                yield from self._process_archive(archive, reader, output, count)

    def _process_archive(
        self, archive: Archive, reader: "ArchiveReader", output: Path | None, count: Count
    ) -> Iterator[Sequence[Paragraph]]:
        with nullcontext() if output is None else zipfile.ZipFile(output, "w") as sink:
            for member, part_reader in reader.readers(archive):
                if part_reader is not None:
                    part = _Part(part_reader, archive.read(member), self.options, count)
                    yield part.paragraphs
                    if sink is not None:
                        content = part.written(self.report)
                        write_member(member, [content], len(content), sink)
                elif sink is not None:
                    write_member(member, archive.chunks(member), member.file_size, sink)


class _Part:
    """A text of a document, in pieces."""

    def __init__(self, reader: TextReader, data: bytes, options: ReadOptions, count: Count) -> None:
        self._reader = reader
        text, self._encoding = reader.encodings.decode(data)
        self._pieces: list[Piece] = []
        try:
            for piece in reader.split(text, options):
                count.add(piece)
                self._pieces.append(piece)
        except RecursionError:
            raise InvalidRequest("file", "it is nested too deep") from None
        self.paragraphs = list(paragraphs(self._pieces))

    def written(self, report: Report) -> bytes:
        report.add(self._pieces)
        return self._reader.encodings.encode(render(self._pieces), self._encoding)


def open_document(path: Path, name: str, options: ReadOptions, limits: DocumentLimits) -> Document:
    """Open a document by its name and its beginning. Raises `InvalidRequest` and `TooLong`."""
    found = format_of(name)
    if options.columns and not found.has_columns:
        raise InvalidRequest("columns", "only csv and tsv files have columns")
    outputs = found.outputs or (found.name,)
    if options.output_format and options.output_format not in outputs:
        raise InvalidRequest("output_format", f"must be {' or '.join(outputs)}, for this document")
    if (size := path.stat().st_size) > limits.max_bytes:
        raise TooLong("file", f"{size} bytes, the limit is {limits.max_bytes}")
    with path.open("rb") as file:
        check_beginning(file.read(_BEGINNING), found)
    return Document(path, found, options, limits)


def _check_archive(archive: Archive, found: DocumentFormat, reader: "ArchiveReader") -> None:
    """Raise `InvalidRequest` for an archive of another format, or with encrypted parts."""
    by_name = {member.filename: member for member in archive.members}
    declared = by_name.get("mimetype")
    is_declared_otherwise = declared is not None and archive.read(declared).strip() != found.media_type.encode()
    if is_declared_otherwise or not any(regex.fullmatch(reader.main, name) for name in by_name):
        raise InvalidRequest("file", f"its content is not {found.name}, as its name says")
    for name, mark in (("META-INF/manifest.xml", b"encryption-data"), ("META-INF/encryption.xml", b"xhtml")):
        if name in by_name and mark in archive.read(by_name[name]):
            raise InvalidRequest("file", "the document is encrypted; remove its password or protection first")
