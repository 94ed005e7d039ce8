"""Blocks of a PDF as a docx with headings, lists, tables and links that an office program can edit."""

import zipfile
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

import regex

from service.documents.pdf.blocks import Block
from service.documents.pdf.letters import Run, Style

_HEAD: Final = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_PACKAGE: Final = "http://schemas.openxmlformats.org/package/2006"
_OFFICE: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_WORD: Final = f'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="{_OFFICE}"'
_UNPRINTABLE: Final = regex.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_INDENT: Final = 360
"""Of a level of a list, in twentieths of a point."""
_LEVELS: Final = range(9)
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
        rows = "".join(f"<w:tr>{''.join(_cell(cell, links) for cell in row)}</w:tr>" for row in block.rows)
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


def _cell(runs: Sequence[Run], links: dict[str, int]) -> str:
    return f"<w:tc><w:p>{_runs(runs, links)}</w:p></w:tc>"


def _runs(runs: Sequence[Run], links: dict[str, int]) -> str:
    written = ""
    for text, style in runs:
        properties = "".join(_properties(style))
        content = "".join(map(_content, regex.split(r"([\t\n])", _UNPRINTABLE.sub("", text))))
        run = f"<w:r><w:rPr>{properties}</w:rPr>{content}</w:r>" if properties else f"<w:r>{content}</w:r>"
        if style.link:
            number = links.setdefault(style.link, len(links))
            run = f'<w:hyperlink r:id="link{number}">{run}</w:hyperlink>'
        written += run
    return written


def _properties(style: Style) -> Iterator[str]:
    if style.link:
        yield '<w:rStyle w:val="Hyperlink"/>'
    if style.bold:
        yield "<w:b/>"
    if style.italic:
        yield "<w:i/>"
    if style.raised:
        yield '<w:vertAlign w:val="superscript"/>'


def _content(text: str) -> str:
    if text in ("\t", "\n"):
        return "<w:tab/>" if text == "\t" else "<w:br/>"
    return f'<w:t xml:space="preserve">{escape(text, quote=False)}</w:t>' if text else ""
