"""The formats of office programs: their vocabularies, and the parts of their archives with text."""

import posixpath
from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

import regex

from service.documents.xml_document import Vocabulary, names
from service.documents.xml_text import XmlKind, XmlToken, tokens

# ISO's strict variant of Office Open XML has other addresses.
_OPEN_XML: Final = {
    f"{host}/{name}": short
    for name, short in {"wordprocessingml": "w", "drawingml": "a", "spreadsheetml": "s"}.items()
    for host in ("http://schemas.openxmlformats.org", "http://purl.oclc.org/ooxml")
}
OPEN_XML: Final = {f"{address}/{tail}": short for address, short in _OPEN_XML.items() for tail in ("2006/main", "main")}
_OPEN_DOCUMENT: Final = {
    f"urn:oasis:names:tc:opendocument:xmlns:{name}:1.0": name
    for name in ("text", "table", "office", "drawing", "presentation")
}
_EPUB: Final = {"http://purl.org/dc/elements/1.1/": "dc", "http://www.daisy.org/z3986/2005/ncx/": "ncx"}

_CODE: Final = regex.compile(r"""<[\w.-]+:pStyle\s[^>]*?:val\s*=\s*["'](?:SourceCode|HTMLPreformatted)["']""")
"""The styles of code that pandoc and word processors give their paragraphs."""

WORD: Final = Vocabulary(
    namespaces=OPEN_XML,
    paragraphs=names("w:p a:p"),
    runs=names("w:r a:r"),
    texts=names("w:t a:t"),
    characters={"w:noBreakHyphen": "-", "w:softHyphen": ""},
    wrappers=names("w:hyperlink w:ins w:moveTo w:smartTag w:customXml w:sdt w:sdtContent w:dir w:bdo"),
    links=names("w:hyperlink"),
    properties=names("w:rPr w:sdtPr w:smartTagPr w:customXmlPr a:rPr"),
    breaks=names("w:br w:tab w:cr w:ptab a:br"),
    copied=names("w:del w:moveFrom w:instrText w:fldSimple w:ruby a:fld"),
    code=_CODE,
)
SLIDES: Final = WORD
"""Slides, charts and diagrams use the vocabulary of drawings, which word processors know too."""
SHEET: Final = Vocabulary(
    namespaces=OPEN_XML,
    paragraphs=names("s:si s:is s:text a:p"),
    runs=names("s:r a:r"),
    texts=names("s:t a:t"),
    has_lines=True,
    properties=names("s:rPr a:rPr"),
    breaks=names("a:br"),
    copied=names("s:rPh a:fld"),
)


def _is_computed_cell(token: XmlToken) -> bool:
    """Return True for a cell whose text the office program computes, from a number, a date or a formula."""
    if token.name not in ("table:table-cell", "table:covered-table-cell"):
        return False
    values = {name.rpartition(":")[2]: value for name, value in token.attributes().items()}
    return "formula" in values or values.get("value-type", "string") != "string"


OPEN_DOCUMENT: Final = Vocabulary(
    namespaces=_OPEN_DOCUMENT,
    paragraphs=names("text:p text:h"),
    wrappers=names("text:span text:a text:meta text:ruby text:ruby-base"),
    links=names("text:a"),
    breaks=names("text:line-break text:tab"),
    copied=names("text:tracked-changes text:ruby-text office:settings office:scripts"),
    is_untouched=_is_computed_cell,
)
EPUB_LISTS: Final = Vocabulary(
    namespaces=_EPUB,
    paragraphs=names("ncx:text dc:title dc:description"),
    html=names("dc:description"),
    languages=names("dc:language"),
)

OPF: Final = {"http://www.idpf.org/2007/opf": "opf"}
_PAGE_TYPES: Final = frozenset({"application/xhtml+xml", "text/html"})


def pages_of(package: str, text: str) -> frozenset[str]:
    """Return the names of the parts that the package of a book, the part of that name, declares as pages."""
    items = (token.attributes() for token in tokens(text, OPF) if token.name == "opf:item")
    names = (item.get("href", "") for item in items if item.get("media-type") in _PAGE_TYPES)
    return frozenset(posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(name))) for name in names)


Parts = Mapping[regex.Pattern[str], Vocabulary]
"""The vocabulary of each part of an archive that holds text, by a pattern of its name."""


def _parts(parts: Mapping[str, Vocabulary]) -> Parts:
    return {regex.compile(pattern): vocabulary for pattern, vocabulary in parts.items()}


DOCX_PARTS: Final = _parts(
    {
        r"word/(?:document|header|footer|footnotes|endnotes|comments)[0-9]*\.xml": WORD,
        r"word/(?:charts/chart|diagrams/data|diagrams/drawing)[0-9]*\.xml": WORD,
    }
)
PPTX_PARTS: Final = _parts(
    {
        r"ppt/(?:slides/slide|notesSlides/notesSlide)[0-9]*\.xml": SLIDES,
        r"ppt/(?:charts/chart|diagrams/data|diagrams/drawing)[0-9]*\.xml": SLIDES,
    }
)
XLSX_PARTS: Final = _parts(
    {
        r"xl/(?:sharedStrings|comments[0-9]*|comments/comment[0-9]*|worksheets/sheet[0-9]*)\.xml": SHEET,
        r"xl/(?:charts/chart|drawings/drawing|diagrams/data)[0-9]*\.xml": SHEET,
    }
)
OPEN_DOCUMENT_PARTS: Final = _parts({r"(?:Object [0-9]+/)?(?:content|styles)\.xml": OPEN_DOCUMENT})
EPUB_PARTS: Final = _parts({r".*\.(?:opf|ncx)": EPUB_LISTS})

XLSX_NAMES: Final = regex.compile(r"xl/(?:tables/table|pivotCache/pivotCacheDefinition)[0-9]*\.xml")
_NAMED: Final = frozenset({"s:tableColumn", "s:cacheField"})


def column_names(text: str) -> frozenset[str]:
    """Return the columns that a table or a pivot table names; the texts of their header cells must stay equal."""
    found = tokens(text, OPEN_XML)
    opened = (token for token in found if token.kind in (XmlKind.OPEN, XmlKind.EMPTY) and token.name in _NAMED)
    return frozenset(token.attributes().get("name", "") for token in opened)


def keeping(vocabulary: Vocabulary, kept: frozenset[str]) -> Vocabulary:
    """Return the vocabulary with texts that must stay."""
    return replace(vocabulary, kept=lambda text: "a table names it" if text in kept else "") if kept else vocabulary
