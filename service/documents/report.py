"""The report of a document: texts translated, texts left as they are and why, and what a person has to look at."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from service.documents.paragraph import Kept, Paragraph, Piece


@dataclass
class Report:
    """The report of a translated document."""

    translated: dict[str, int] = field(default_factory=dict)
    """Texts that differ from the source, by where they stand: `text`, `heading`, `cell`, `cue`, `entry` ..."""
    unchanged: int = 0
    """Texts whose translation is the source, such as names and codes."""
    left: dict[str, int] = field(default_factory=dict)
    """Texts that were not translated, by the reason."""
    without_inner_tags: int = 0
    """Blocks that no translation with their inline elements fitted."""
    warnings: list[str] = field(default_factory=list)

    def add(self, pieces: Iterable[Piece]) -> None:
        """Count the texts of a part, after they were translated."""
        translated, left = Counter(self.translated), Counter(self.left)
        for piece in _all(pieces):
            if isinstance(piece, Kept):
                left[piece.reason] += 1
            elif isinstance(piece, Paragraph) and piece.translation in (None, piece.markup):
                self.unchanged += 1
            elif isinstance(piece, Paragraph):
                translated[piece.context] += 1
                self.without_inner_tags += piece.is_plain
        self.translated, self.left = dict(translated), dict(left)

    def in_words(self) -> list[str]:
        """Return a line for each thing that a person may want to know."""
        places = ", ".join(f"{count} of {context}" for context, count in self.translated.items())
        lines = [f"{_counted(sum(self.translated.values()), 'text')} translated" + (f" ({places})" if places else "")]
        if self.unchanged:
            lines.append(f"{_counted(self.unchanged, 'text')} equal in both languages")
        lines += [f"{_counted(count, 'text')} not translated: {reason}" for reason, count in self.left.items()]
        if self.without_inner_tags:
            lines.append(
                f"{_counted(self.without_inner_tags, 'block')} translated without inner tags: compare the formatting"
            )
        return [*lines, *self.warnings]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _all(pieces: Iterable[Piece]) -> Iterator[Piece]:
    for piece in pieces:
        yield piece
        if isinstance(piece, Paragraph):
            yield from _all(piece.source)
