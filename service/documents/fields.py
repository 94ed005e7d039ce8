"""Fields of word processors, whose parts lie in several runs: a link becomes a wrapper, a computed field one object."""

from collections.abc import Sequence
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
    """Join the parts of a word processor's fields, which must stay together."""
    joined: list[Item] = []
    opened: list[tuple[int, int | None]] = []  # where fields begin, and where their heads end
    for item in items:
        kind = _field_kind(item)
        joined.append(item)
        if kind == "begin":
            opened.append((len(joined) - 1, None))
        elif kind == "separate" and opened and opened[-1][1] is None:
            opened[-1] = opened[-1][0], len(joined)
        elif kind == "end" and opened:
            _close_field(joined, *opened.pop())
    return joined


def _close_field(joined: list[Item], start: int, head_end: int | None) -> None:
    """Replace the parts of a field, which are the last items, by a wrapper or an object."""
    parts = joined[start:]
    depths = [*accumulate(isinstance(part, Open) - isinstance(part, Close) for part in parts)]
    if depths[-1] or min(depths) < 0:
        return  # the field overlaps a wrapper: its parts stay objects
    head = joined[start:head_end]
    instruction = "".join(_INSTRUCTION.findall(source_of(head))).split()
    if head_end is not None and instruction[:1] and instruction[0] in _FIELDS_OF_TEXT:
        opening = Open(source_of(head), is_link=instruction[0] == "HYPERLINK")
        joined[start:] = [opening, *joined[head_end:-1], Close(source_of(parts[-1:]))]
    else:
        joined[start:] = [Object([source_of(parts)])]


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
