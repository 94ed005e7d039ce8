"""Paragraphs, the units of a document that are translated, and the pieces of its text around them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """The language that a document is translated into, as its format writes it, and the columns of a table."""

    target: str
    columns: tuple[str, ...] = ()
    """Names or numbers, from 1, of the columns to translate; () for all."""


class Write(Protocol):
    """A function that turns the HTML of a translation into the text of a document."""

    def __call__(self, translation: str, /) -> str: ...


@dataclass(eq=False)
class Paragraph:
    """A paragraph of a document.

    `source` is the text as the document has it; it may contain further paragraphs, such as those of a footnote or a
    text box. `markup` is the HTML to translate: text, and inline tags for formatting and objects.
    """

    source: Sequence["Piece"]
    markup: str
    characters: int
    """Characters of text in the markup."""
    write: Write
    is_in_place: bool = True
    """True if the translation replaces the text: one that equals its markup leaves the source unchanged."""
    translation: str | None = field(default=None, init=False)

    def render(self) -> str:
        if self.translation is None or (self.is_in_place and self.translation == self.markup):
            return render(self.source)
        return self.write(self.translation)


Piece = str | Paragraph
"""A part of a document's text that is copied, or a paragraph; all sources joined are the text."""


def render(pieces: Iterable[Piece]) -> str:
    """Join pieces, with the translations of the paragraphs that have one."""
    return "".join(piece if isinstance(piece, str) else piece.render() for piece in pieces)


def paragraphs(pieces: Iterable[Piece]) -> Iterator[Paragraph]:
    """Yield all paragraphs, each before the paragraphs in it."""
    for piece in pieces:
        if isinstance(piece, Paragraph):
            yield piece
            yield from paragraphs(piece.source)


def batches(found: Iterable[Paragraph], characters: int, texts: int) -> Iterator[list[Paragraph]]:
    """Group paragraphs, in their order, into requests of about `characters` with their tags, and of at most `texts`."""
    batch: list[Paragraph] = []
    size = 0
    for paragraph in found:
        if batch and (size + len(paragraph.markup) > characters or len(batch) == texts):
            yield batch
            batch, size = [], 0
        batch.append(paragraph)
        size += len(paragraph.markup)
    if batch:
        yield batch


def has_letters(text: str) -> bool:
    """Return True if a text has something to translate."""
    return any(map(str.isalpha, text))
