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
_TYPES: Final = "application/vnd.openxmlformats"
_WORD: Final = f'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="{_OFFICE}"'
_UNPRINTABLE: Final = regex.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_INDENT: Final = 360
"""Of a level of a list, in twentieths of a point."""
_LEVELS: Final = range(9)
_HEADING_SIZES: Final = {1: 36, 2: 30, 3: 26, 4: 24}
"""In half points."""
_GRID: Final = "".join(
    f'<w:{side} w:val="single" w:sz="4"/>' for side in ("top", "left", "bottom", "right", "insideH", "insideV")
)


def _style(kind: str, name: str, content: str) -> str:
    return f'<w:style w:type="{kind}" w:styleId="{name.replace(" ", "")}"><w:name w:val="{name}"/>{content}</w:style>'


_STYLES: Final = (
    f'<w:styles {_WORD}><w:docDefaults><w:rPrDefault><w:rPr><w:rFonts w:ascii="Calibri" w:hAnsi="Calibri"/>'
    '<w:sz w:val="22"/></w:rPr></w:rPrDefault><w:pPrDefault><w:pPr><w:spacing w:after="120"/></w:pPr></w:pPrDefault>'
    "</w:docDefaults>"
    + _style("paragraph", "Normal", "<w:qFormat/>").replace(" w:styleId", ' w:default="1" w:styleId')
    + "".join(
        _style(
            "paragraph",
            f"heading {level}",
            '<w:basedOn w:val="Normal"/><w:next w:val="Normal"/><w:qFormat/><w:pPr><w:keepNext/>'
            f'<w:outlineLvl w:val="{level - 1}"/></w:pPr><w:rPr><w:b/><w:sz w:val="{size}"/></w:rPr>',
        )
        for level, size in _HEADING_SIZES.items()
    )
    + _style("paragraph", "Source Code", '<w:rPr><w:rFonts w:ascii="Courier New" w:hAnsi="Courier New"/></w:rPr>')
    + _style("character", "Hyperlink", '<w:rPr><w:color w:val="0563C1"/><w:u w:val="single"/></w:rPr>')
    + _style("table", "Table Grid", f"<w:tblPr><w:tblBorders>{_GRID}</w:tblBorders></w:tblPr>")
    + "</w:styles>"
)
_BULLETS: Final = "".join(
    f'<w:lvl w:ilvl="{level}"><w:numFmt w:val="bullet"/><w:lvlText w:val="•"/></w:lvl>' for level in _LEVELS
)
_PARTS: Final = {
    "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" ContentType="'
    f'{_TYPES}-package.relationships+xml"/>'
    + "".join(
        f'<Override PartName="/word/{name}.xml" ContentType="{_TYPES}-officedocument.wordprocessingml.{kind}+xml"/>'
        for name, kind in {"document": "document.main", "styles": "styles", "numbering": "numbering"}.items()
    )
    + "</Types>",
    "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="document" '
    f'Type="{_OFFICE}/officeDocument" Target="word/document.xml"/></Relationships>',
    "word/styles.xml": _STYLES,
    "word/numbering.xml": f'<w:numbering {_WORD}><w:abstractNum w:abstractNumId="0">{_BULLETS}</w:abstractNum>'
    '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>',
}


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
        for name, content in (_PARTS | written).items():
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
