"""Blocks of a PDF as Markdown, and as a docx that an office program can edit."""

import zipfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

import regex

from service.documents.pdf.blocks import Block
from service.documents.pdf.letters import Run

_HEAD: Final = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_PACKAGE: Final = "http://schemas.openxmlformats.org/package/2006"
_OFFICE: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_WORD: Final = f'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="{_OFFICE}"'
_UNPRINTABLE: Final = regex.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_INDENT: Final = 360
"""Of a level of a list, in twentieths of a point."""
_LEVELS: Final = range(9)
_PROPERTIES: Final = {
    "link": '<w:rStyle w:val="Hyperlink"/>',
    "bold": "<w:b/>",
    "italic": "<w:i/>",
    "raised": '<w:vertAlign w:val="superscript"/>',
}
"""The properties of a run by the fields of its style."""
_SPECIAL: Final = regex.compile(r"([\\`*_\[\]<>|]|^(?:#{1,6}|[+-])(?=\s)|^[=-](?=[=-]*\Z))")
_TEMPLATE: Final = Path(__file__).parent / "template"
"""The parts that all documents share: their styles and lists."""


def write_docx(blocks: Sequence[Block], path: Path) -> None:
    """Write blocks as a docx."""
    links: dict[str, int] = {}
    body = "".join(_block(block, links) for block in blocks)
    targets = "".join(
        f'<Relationship Id="{part}" Type="{_OFFICE}/{part}" Target="{part}.xml"/>' for part in ("styles", "numbering")
    ) + "".join(
        f'<Relationship Id="link{number}" Type="{_OFFICE}/hyperlink" Target="{escape(address)}" TargetMode="External"/>'
        for address, number in links.items()
    )
    written = {
        "word/_rels/document.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">{targets}</Relationships>',
        "word/document.xml": f"<w:document {_WORD}><w:body>{body}<w:sectPr/></w:body></w:document>",
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in sorted(_TEMPLATE.rglob("*.*")):
            archive.writestr(str(part.relative_to(_TEMPLATE)), part.read_bytes())
        for name, content in written.items():
            archive.writestr(name, _HEAD + content)


def _block(block: Block, links: dict[str, int]) -> str:
    if block.kind == "table":
        cells = ("".join(f"<w:tc><w:p>{_runs(cell, links)}</w:p></w:tc>" for cell in row) for row in block.rows)
        rows = "".join(f"<w:tr>{row}</w:tr>" for row in cells)
        style = '<w:tblPr><w:tblStyle w:val="TableGrid"/><w:tblW w:w="0" w:type="auto"/></w:tblPr>'
        return f"<w:tbl>{style}<w:tblGrid>{'<w:gridCol/>' * len(block.rows[0])}</w:tblGrid>{rows}</w:tbl><w:p/>"
    properties = marker = ""
    if block.kind == "heading":
        properties = f'<w:pStyle w:val="heading{block.level}"/>'
    elif block.kind == "code":
        properties = '<w:pStyle w:val="SourceCode"/>'
    elif block.kind == "item":
        level = min(block.level - 1, _LEVELS[-1])
        if any(map(str.isalnum, block.marker)):
            # A field, so that it is not translated.
            text = escape(_UNPRINTABLE.sub("", block.marker))
            marker = f'<w:fldSimple w:instr=" QUOTE &quot;{text}&quot; "><w:r><w:t>{text}</w:t></w:r></w:fldSimple>'
            marker += "<w:r><w:tab/></w:r>"
        else:
            properties = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="1"/></w:numPr>'
        properties += f'<w:ind w:left="{_INDENT * (level + 2)}" w:hanging="{_INDENT}"/>'
    return f"<w:p><w:pPr>{properties}</w:pPr>{marker}{_runs(block.runs, links)}</w:p>"


def _runs(runs: Sequence[Run], links: dict[str, int]) -> str:
    written = ""
    for text, style in runs:
        properties = "".join(element for name, element in _PROPERTIES.items() if getattr(style, name))
        content = "".join(map(_content, regex.split(r"([\t\n])", _UNPRINTABLE.sub("", text))))
        run = f"<w:r><w:rPr>{properties}</w:rPr>{content}</w:r>" if properties else f"<w:r>{content}</w:r>"
        if style.link:
            number = links.setdefault(style.link, len(links))
            run = f'<w:hyperlink r:id="link{number}">{run}</w:hyperlink>'
        written += run
    return written


def _content(text: str) -> str:
    if text in ("\t", "\n"):
        return "<w:tab/>" if text == "\t" else "<w:br/>"
    return f'<w:t xml:space="preserve">{escape(text, quote=False)}</w:t>' if text else ""


def markdown_of(blocks: Sequence[Block]) -> str:
    """Write blocks as Markdown."""
    written: list[str] = []
    for before, block in zip([None, *blocks], blocks, strict=False):
        is_in_list = before is not None and before.kind == block.kind == "item"
        written.append(("\n" if is_in_list or before is None else "\n\n") + _in_markdown(block))
    return "".join(written).lstrip("\n") + "\n"


def _in_markdown(block: Block) -> str:
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
