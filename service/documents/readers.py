"""How the text of a format is decoded, split into pieces and encoded again; for archives, which parts hold text."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import regex

from service.documents import office
from service.documents.paragraph import Piece, ReadOptions
from service.documents.passages import Passage
from service.documents.web_pages import decode_html, split_xhtml
from service.documents.xml_document import split_xml
from service.documents.xml_text import decode as decode_xml
from service.errors import InvalidRequest

Read = Callable[[str, ReadOptions], Iterable[Passage]]
"""A function that finds the texts to translate, in their order. This is all that most formats need."""
Split = Callable[[str, ReadOptions], Iterator[Piece]]
"""A function that splits a text into pieces, for formats whose paragraphs contain others; joined, they are the text."""


@dataclass(frozen=True, kw_only=True)
class TextReader:
    """The rules for reading and writing a text of a document."""

    decode: Callable[[bytes], tuple[str, str]]
    """Returns the text and its encoding."""
    split: Split
    has_references: bool = False
    """True if a character that the encoding lacks can be written as a reference."""

    def encode(self, text: str, encoding: str) -> bytes:
        """Return the bytes of a text. Raises `InvalidRequest` if the document's encoding lacks a character."""
        try:
            return text.encode(encoding, "xmlcharrefreplace" if self.has_references else "strict")
        except UnicodeEncodeError as error:
            missing = text[error.start : error.end][:1]
            raise InvalidRequest(
                "file", f"the translation has {missing!r}, which {encoding.upper()} cannot write; save it as UTF-8"
            ) from None


_XHTML: Final = TextReader(decode=decode_html, split=split_xhtml, has_references=True)


@dataclass(frozen=True, kw_only=True)
class ArchiveReader:
    """The parts of an archive that hold text."""

    main: regex.Pattern[str]
    """The name of a part that every archive of the format has."""
    parts: office.Parts
    pages: regex.Pattern[str] | None = None
    """The names of parts in XHTML, besides those that a package declares."""

    def reader(self, name: str, known: office.Survey) -> TextReader | None:
        """Return the reader of a part; None for a part without text."""
        if name in known.pages or (self.pages is not None and self.pages.fullmatch(name)):
            return _XHTML
        for pattern, vocabulary in self.parts.items():
            if regex.fullmatch(pattern, name):
                split = partial(split_xml, vocabulary=office.keeping(vocabulary, known))
                return TextReader(decode=decode_xml, split=split, has_references=True)
        return None


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """A format that cannot be written: its files are converted first, and delivered in another format."""

    convert: Callable[[Path, Path, ReadOptions], Sequence[str]]
    """Converts a file into another one, whose name ends in one of `outputs`. Returns warnings for the report."""
    outputs: tuple[str, ...]
    """The formats that the caller may choose; the first is the default."""


@dataclass(frozen=True, kw_only=True)
class DocumentFormat:
    """A format of documents."""

    name: str
    """The ending of its files' names."""
    media_type: str
    reader: TextReader | ArchiveReader | Conversion

    @property
    def has_columns(self) -> bool:
        """True for a table of values; the caller may choose some of its columns."""
        return self.name in ("csv", "tsv")
