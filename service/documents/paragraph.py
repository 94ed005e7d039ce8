"""Paragraphs, the units of a document that are translated, and the pieces of its text around them."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import regex

from service.errors import InvalidRequest


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Languages, columns and choices that a reader of a document needs."""

    target: str
    """The language that the document is translated into, as its format writes it."""
    source: str = ""
    """The language of the document; "" while it is unknown."""
    columns: tuple[str, ...] = ()
    """Names or numbers, from 1, of the columns of a table to translate; () for all."""
    marks_fuzzy: bool = True
    """True if new translations in a PO file are marked as ones that a person has to read."""
    output_format: str = ""
    """The format of the result, for a format that cannot be written; "" for the default."""
    anchors: frozenset[str] = frozenset()
    """Anchors in the document to which other documents link."""

    def check(self, what: str, source: str = "", target: str = "") -> None:
        """Raise `InvalidRequest` if `what` declares other languages than the requested ones; countries may differ."""
        for name, declared, wanted in (("source", source, self.source), ("target", target, self.target)):
            one, two = (regex.split("[-_@]", code, maxsplit=1)[0].lower() for code in (declared, wanted))
            if one and two and one != two:
                raise InvalidRequest(name, f"must be {one}, the language in {what}, or change it there")


class Kept(str):
    """A text of a document that a reader sees and that is left as it is, with the reason."""

    __slots__ = ("reason",)

    def __new__(cls, text: str, reason: str) -> "Kept":
        kept = super().__new__(cls, text)
        kept.reason = reason
        return kept

    reason: str


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
    write: Callable[[str], str]
    """Turns the HTML of a translation into the text of the document."""
    is_in_place: bool = True
    """True if the translation replaces the text: one that equals its markup leaves the source unchanged."""
    context: str = "text"
    """The place of the text: `text`, `heading`, `cell`, `cue`, `entry`, `title` or `attribute`."""
    encode: Callable[[str], str] = str
    """Writes the paragraph, source or translation, as the format around it spells it."""
    translation: str | None = field(default=None, init=False)
    is_plain: bool = field(default=False, init=False)
    """True if no translation of the markup had the right structure, and the text was translated without it."""

    def fit(self, translation: str) -> str | None:
        """Return a translation with the structure of the markup, repaired if need be; None if it is damaged."""
        return translation

    def plain(self) -> str:
        """Return the markup without the tags that a translation may lose."""
        return self.markup

    def complete(self, translation: str) -> str:
        """Return a translation of `plain` with exactly its tags."""
        return translation

    def accept(self, translation: str) -> bool:
        """Set the translation. Return False if its structure is damaged; then the plain markup has to be translated."""
        self.translation = self.fit(_with_edges(self.markup, translation))
        return self.translation is not None

    def accept_plain(self, translation: str) -> None:
        """Set the translation of the plain markup."""
        self.translation, self.is_plain = _with_edges(self.markup, self.complete(translation)), True

    def render(self) -> str:
        if self.translation is None or (self.is_in_place and self.translation == self.markup):
            return self.encode(render(self.source))
        return self.encode(self.write(self.translation))


Piece = str | Paragraph
"""A part of a document's text that is copied, or a paragraph; all sources joined are the text."""


def _with_edges(markup: str, translation: str) -> str:
    """Return the translation with the white space of the markup at its beginning and end."""
    inside = translation.strip()
    if not inside:
        return translation
    start = markup[: len(markup) - len(markup.lstrip())]
    return start + inside + markup[len(markup.rstrip()) :]


def render(pieces: Iterable[Piece]) -> str:
    """Join pieces, with the translations of the paragraphs that have one."""
    return "".join(piece if isinstance(piece, str) else piece.render() for piece in pieces)


def all_pieces(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield pieces, each paragraph before the pieces in it."""
    for piece in pieces:
        yield piece
        if isinstance(piece, Paragraph):
            yield from all_pieces(piece.source)


def paragraphs(pieces: Iterable[Piece]) -> Iterator[Paragraph]:
    """Yield all paragraphs, each before the paragraphs in it."""
    return (piece for piece in all_pieces(pieces) if isinstance(piece, Paragraph))


class Batch(msgspec.Struct, frozen=True, tag=True):
    """Texts that are translated by one request, in HTML, and the characters in them."""

    texts: list[str]
    characters: int


_BATCH_CHARACTERS: Final = 4_000
"""Characters of a batch, with their tags."""
_BATCH_TEXTS: Final = 50

Translating = Generator[Batch, Sequence[str], None]
"""Yields batches, and is sent their translations."""


def advance(translation: Translating, texts: Sequence[str] | None) -> Batch | None:
    """Send the translations of the last batch, None before the first; return the next batch, None after the last."""
    try:
        return next(translation) if texts is None else translation.send(texts)
    except StopIteration:
        return None


def translating(found: Iterable[Paragraph]) -> Translating:
    """Have paragraphs translated. One whose structure was damaged is translated again, without inner tags."""
    for batch in _batches(found):
        characters = sum(paragraph.characters for paragraph in batch)
        translations = yield Batch([paragraph.markup for paragraph in batch], characters)
        damaged = [one for one, text in zip(batch, translations, strict=True) if not one.accept(text)]
        if damaged:
            texts = yield Batch([one.plain() for one in damaged], 0)
            for paragraph, text in zip(damaged, texts, strict=True):
                paragraph.accept_plain(text)


def _batches(found: Iterable[Paragraph]) -> Iterator[list[Paragraph]]:
    batch: list[Paragraph] = []
    size = 0
    for paragraph in found:
        if batch and (size + len(paragraph.markup) > _BATCH_CHARACTERS or len(batch) == _BATCH_TEXTS):
            yield batch
            batch, size = [], 0
        batch.append(paragraph)
        size += len(paragraph.markup)
    if batch:
        yield batch
