"""Fields of word processors, whose parts lie in several runs: a link becomes a wrapper, a computed field one object."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import regex

from service.documents.paragraph import render
from service.documents.tagged import Close, Item, Object, Open, Words
from service.documents.xml_text import escape_text

_FIELD_KIND: Final = regex.compile(r"""<[\w.-]+:fldChar\b[^>]*:fldCharType\s*=\s*["'](\w+)""")
_INSTRUCTION: Final = regex.compile(r"<[\w.-]+:instrText[^>]*>([^<]*)")
_FIELDS_OF_TEXT: Final = ("HYPERLINK", "TOC", "REF", "INDEX")
"""Fields of a word processor whose result is text of the document; all others are computed."""


def join_fields(items: Sequence[Item]) -> list[Item]:
    """Join the parts of a word processor's fields: a link becomes a wrapper, a computed field one object.

    The parts of a field lie in several runs, which must stay together.
    """
    joined: list[Item] = []
    open_fields: list[_Field] = []
    for item in items:
        kind = _field_kind(item)
        joined.append(item)
        if kind == "begin":
            open_fields.append(_Field(len(joined) - 1))
        elif kind == "separate" and open_fields and open_fields[-1].head_end is None:
            open_fields[-1].head_end = len(joined)
        elif kind == "end" and open_fields:
            _close_field(joined, open_fields.pop())
    return joined


@dataclass
class _Field:
    start: int
    head_end: int | None = None


def _close_field(joined: list[Item], found: _Field) -> None:
    """Replace the parts of a field, which are the last items, by a wrapper or an object."""
    parts = joined[found.start :]
    depths = [*accumulate(isinstance(part, Open) - isinstance(part, Close) for part in parts)]
    if depths[-1] or min(depths) < 0:
        return  # the field overlaps a wrapper: its parts stay objects
    head = joined[found.start : found.head_end]
    instruction = "".join(_INSTRUCTION.findall(source_of(head))).split()
    is_text = found.head_end is not None and instruction[:1] and instruction[0] in _FIELDS_OF_TEXT
    if is_text and found.head_end is not None:
        is_link = instruction[0] == "HYPERLINK"
        joined[found.start :] = [
            Open(source_of(head), is_link),
            *joined[found.head_end : -1],
            Close(source_of(parts[-1:])),
        ]
    else:
        joined[found.start :] = [Object([source_of(parts)])]


def source_of(items: Sequence[Item]) -> str:
    """Return the text of items as the document has it."""
    parts = []
    for item in items:
        match item:
            case Words(text, run):
                parts.append(run.opening + escape_text(text) + run.closing)
            case Open(raw) | Close(raw):
                parts.append(raw)
            case Object(pieces):
                parts.append(render(pieces))
    return "".join(parts)


def _field_kind(item: Item) -> str:
    if not isinstance(item, Object) or not all(isinstance(piece, str) for piece in item.pieces):
        return ""
    found = _FIELD_KIND.search(render(item.pieces))
    return found[1] if found else ""
