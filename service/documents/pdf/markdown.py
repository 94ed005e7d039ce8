"""Blocks of a PDF as Markdown."""

from collections.abc import Sequence
from typing import Final

import regex

from service.documents.pdf.blocks import Block
from service.documents.pdf.letters import Run

_SPECIAL: Final = regex.compile(r"([\\`*_\[\]<>|]|^(?:#{1,6}|[+-])(?=\s)|^[=-](?=[=-]*\Z))")


def markdown_of(blocks: Sequence[Block]) -> str:
    """Write blocks as Markdown."""
    written: list[str] = []
    for before, block in zip([None, *blocks], blocks, strict=False):
        is_in_list = before is not None and before.kind == block.kind == "item"
        written.append(("\n" if is_in_list or before is None else "\n\n") + _block(block))
    return "".join(written).lstrip("\n") + "\n"


def _block(block: Block) -> str:
    if block.kind == "table":
        rows = [[_text(cell).replace("\n", " ") for cell in row] for row in block.rows]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])
    if block.kind == "code":
        return f"```\n{block.text}\n```"
    text = _text(block.runs).strip()
    if block.kind == "heading":
        return "#" * block.level + " " + text
    if block.kind == "item":
        marker = block.marker if regex.fullmatch(r"\d{1,9}[.)]", block.marker) else "-"
        label = "" if marker == block.marker or not regex.search(r"\w", block.marker) else f"{block.marker} "
        return "    " * (block.level - 1) + f"{marker} {label}{text}"
    return text


def _text(runs: Sequence[Run]) -> str:
    written = []
    for text, style in runs:
        inner = text.strip()
        before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
        inner = _SPECIAL.sub(r"\\\1", inner.replace("\t", " … "))
        mark = "**" * style.bold + "*" * style.italic
        if inner and mark and any(map(str.isalnum, inner)):
            inner = mark + inner + mark[::-1]
        if inner and style.link:
            inner = f"[{inner}]({style.link.replace(' ', '%20').replace('(', '%28').replace(')', '%29')})"
        if inner and style.raised:
            inner = f"<sup>{inner}</sup>"
        written.append(before + inner + after)
    return "".join(written).replace("\t", " ")
