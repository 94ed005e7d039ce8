"""Readers decode the text of a format, split it into pieces and encode it again."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from service.documents.paragraph import Piece, ReadOptions
from service.errors import InvalidRequest

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


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """A format that cannot be written: its files are converted first, and delivered in another format."""

    convert: Callable[[Path, Path, ReadOptions], Sequence[str]]
    """Converts a file into another one, by its name into docx or md. Returns warnings for the report."""
