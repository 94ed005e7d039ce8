"""The report of a document: texts translated, texts left as they are and why, and what a person has to look at."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import unescape
from typing import Final

import regex

from service.documents.paragraph import Kept, Paragraph, Piece, all_pieces

_PLACEHOLDER: Final = regex.compile(r"(?<!%)%[-+#0']?[0-9.]*(?:hh?|ll?|[zjtqL])?[@sSdiufFeEgGxXoacCp]")
"""A placeholder of printf without a number: programs fill them in their order."""
_MOST_SHOWN: Final = 10
_LONGEST_SHOWN: Final = 80


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
        moved: list[str] = []
        for piece in all_pieces(pieces):
            if isinstance(piece, Kept):
                left[piece.reason] += 1
            elif isinstance(piece, Paragraph) and piece.translation in (None, piece.markup):
                self.unchanged += 1
            elif isinstance(piece, Paragraph):
                translated[piece.context] += 1
                self.without_inner_tags += piece.is_plain
                if piece.context == "entry" and _has_moved_placeholders(piece):
                    moved.append(unescape(piece.markup)[:_LONGEST_SHOWN])
        if moved:
            shown = "; ".join(moved[:_MOST_SHOWN]) + ("; ..." if len(moved) > _MOST_SHOWN else "")
            self.warnings.append(
                f"{_counted(len(moved), 'text')} with placeholders in another order, which can crash programs: {shown}"
            )
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


def _has_moved_placeholders(paragraph: Paragraph) -> bool:
    before, after = (_PLACEHOLDER.findall(text) for text in (paragraph.markup, paragraph.translation or ""))
    return before != after and sorted(before) == sorted(after)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
