"""The limits of a document."""

from dataclasses import dataclass
from typing import Final

from service.documents.paragraph import Piece, paragraphs
from service.errors import TooLong

_SAMPLE_CHARACTERS: Final = 4_000


@dataclass(frozen=True, kw_only=True)
class DocumentLimits:
    """The limits of a document; one that exceeds a limit is refused as a whole."""

    max_bytes: int = 20_000_000
    max_characters: int = 1_000_000
    max_paragraphs: int = 100_000
    max_paragraph_characters: int = 40_000
    """Characters of a paragraph with its tags, fewer than the limit of a request."""
    max_pieces: int = 2_000_000
    """Paragraphs, and the pieces of text between them."""
    max_processor_seconds: int = 60
    """Processor time for reading and writing, without the translation."""
    max_memory_bytes: int = 400_000_000
    max_members: int = 5_000
    """Parts of an archive."""
    max_expanded_bytes: int = 250_000_000
    """All parts of an archive together."""
    max_part_bytes: int = 20_000_000
    """A part of an archive that holds text."""


class Count:
    """The paragraphs of a document and their characters, counted against its limits."""

    def __init__(self, limits: DocumentLimits) -> None:
        self._limits = limits
        self.pieces = 0
        self.paragraphs = 0
        self.characters = 0
        self.sample = ""
        """HTML from the beginning of the document, to detect its language."""

    def add(self, piece: Piece) -> None:
        """Count a piece, and the paragraphs in it. Raises `TooLong`."""
        limits = self._limits
        self.pieces += 1
        _check(self.pieces, limits.max_pieces, "pieces of text")
        for paragraph in paragraphs([piece]):
            self.paragraphs += 1
            self.characters += paragraph.characters
            if len(self.sample) < _SAMPLE_CHARACTERS:
                self.sample += f"{paragraph.markup} "
            _check(self.paragraphs, limits.max_paragraphs, "paragraphs")
            _check(len(paragraph.markup), limits.max_paragraph_characters, "characters", "a paragraph has ")
            _check(self.characters, limits.max_characters, "characters")


def _check(count: int, most: int, what: str, subject: str = "") -> None:
    if count > most:
        raise TooLong("file", f"{subject}more than {most} {what}")
