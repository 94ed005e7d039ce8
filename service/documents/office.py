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
    for name, short in {"wordprocessingml": "w", "drawingml": "a", "spreadsheetml": "s", "presentationml": "p"}.items()
    for host in ("http://schemas.openxmlformats.org", "http://purl.oclc.org/ooxml")
}
_DUBLIN_CORE: Final = "http://purl.org/dc/elements/1.1/"
OPEN_XML: Final = {
    **{f"{address}/{tail}": short for address, short in _OPEN_XML.items() for tail in ("2006/main", "main")},
    "http://schemas.openxmlformats.org/drawingml/2006/chart": "c",
    "http://purl.oclc.org/ooxml/drawingml/chart": "c",
    "http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments": "thread",
    _DUBLIN_CORE: "dc",
}
_OPEN_DOCUMENT: Final = {
    **{
        f"urn:oasis:names:tc:opendocument:xmlns:{name}:1.0": name
        for name in ("text", "table", "office", "drawing", "presentation", "svg-compatible")
    },
    _DUBLIN_CORE: "dc",
}
_EPUB: Final = {_DUBLIN_CORE: "dc", "http://www.daisy.org/z3986/2005/ncx/": "ncx"}

_CODE_STYLES: Final = (
    r"(?:Source|Code|Verbatim|Preformatted|HTML)(?:_20_)?(?:Code|Text|Char|Block|Preformatted)?(?:Char)?|macro"
)
"""Names of the styles of code that pandoc and word processors give their paragraphs and words."""
_CODE: Final = regex.compile(rf"""<[\w.-]+:pStyle\s[^>]*?:val\s*=\s*["'](?:{_CODE_STYLES})["']""")
_CODE_WORDS: Final = regex.compile(rf"""<[\w.-]+:rStyle\s[^>]*?:val\s*=\s*["'](?:{_CODE_STYLES})["']""")
_CONTROLS: Final = regex.compile(r"<[\w.-]+:(?:checkbox|checkBox|date|dropDownList|comboBox|picture)\b")
_LINK: Final = regex.compile(r"<[\w.-]+:hlinkClick\s")
_DESCRIPTIONS: Final = names("descr title")
_PICTURES: Final = {":docPr": _DESCRIPTIONS, ":cNvPr": _DESCRIPTIONS, "p:cNvPr": _DESCRIPTIONS}


def _is_computed_field(token: XmlToken) -> bool:
    """Return True for a field whose result the word processor computes, unlike the words of a link."""
    if token.name != "w:fldSimple":
        return False
    values = {name.rpartition(":")[2]: value for name, value in token.attributes().items()}
    return values.get("instr", "").split()[:1] != ["HYPERLINK"]


WORD: Final = Vocabulary(
    namespaces=OPEN_XML,
    paragraphs=names("w:p a:p c:v p:text dc:title dc:subject dc:description"),
    plain=names("c:v p:text dc:title dc:subject dc:description"),
    attributes=_PICTURES,
    controls=_CONTROLS,
    word=_CODE_WORDS,
    link=_LINK,
    runs=names("w:r a:r"),
    texts=names("w:t a:t"),
    characters={"w:noBreakHyphen": "-", "w:softHyphen": ""},
    wrappers=names("w:hyperlink w:fldSimple w:ins w:moveTo w:smartTag w:customXml w:sdt w:sdtContent w:dir w:bdo"),
    links=names("w:hyperlink w:fldSimple"),
    properties=names("w:rPr w:sdtPr w:smartTagPr w:customXmlPr a:rPr"),
    breaks=names("w:br w:tab w:cr w:ptab a:br"),
    copied=names("w:del w:moveFrom w:instrText w:ruby a:fld"),
    code=_CODE,
    is_untouched=_is_computed_field,
)
SLIDES: Final = WORD
"""Slides, charts and diagrams use the vocabulary of drawings, which word processors know too."""
SHEET: Final = Vocabulary(
    namespaces=OPEN_XML,
    paragraphs=names("s:si s:is s:text a:p c:v thread:text dc:title dc:subject dc:description"),
    plain=names("c:v thread:text dc:title dc:subject dc:description"),
    attributes={**_PICTURES, "s:dataValidation": names("promptTitle prompt errorTitle error")},
    link=_LINK,
    runs=names("s:r a:r"),
    texts=names("s:t a:t"),
    has_lines=True,
    properties=names("s:rPr a:rPr"),
    breaks=names("a:br"),
    copied=names("s:rPh a:fld"),
)


def _is_computed_or_code(token: XmlToken) -> bool:
    """Return True for code, and for a cell whose text the office program computes, from a number, date or formula."""
    if token.name not in ("table:table-cell", "table:covered-table-cell", "text:p", "text:span"):
        return False
    values = {name.rpartition(":")[2]: value for name, value in token.attributes().items()}
    if token.name.startswith("text"):
        return _CODE_STYLE.fullmatch(values.get("style-name", "")) is not None
    return "formula" in values or values.get("value-type", "string") != "string"


_CODE_STYLE: Final = regex.compile(_CODE_STYLES)

OPEN_DOCUMENT: Final = Vocabulary(
    namespaces=_OPEN_DOCUMENT,
    paragraphs=names("text:p text:h svg-compatible:title svg-compatible:desc dc:title dc:subject dc:description"),
    wrappers=names("text:span text:a text:meta text:ruby text:ruby-base"),
    links=names("text:a"),
    breaks=names("text:line-break text:tab"),
    copied=names("text:tracked-changes text:ruby-text office:settings office:scripts"),
    is_untouched=_is_computed_or_code,
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
        r"docProps/core\.xml": WORD,
        r"word/(?:charts/chart|diagrams/data|diagrams/drawing)[0-9]*\.xml": WORD,
    }
)
PPTX_PARTS: Final = _parts(
    {
        r"ppt/(?:slides/slide|notesSlides/notesSlide)[0-9]*\.xml|ppt/comments/[^/]+\.xml": SLIDES,
        r"docProps/core\.xml": SLIDES,
        r"ppt/(?:charts/chart|diagrams/data|diagrams/drawing)[0-9]*\.xml": SLIDES,
    }
)
XLSX_PARTS: Final = _parts(
    {
        r"xl/(?:sharedStrings|comments[0-9]*|comments/comment[0-9]*|worksheets/sheet[0-9]*)\.xml": SHEET,
        r"xl/(?:charts/chart|drawings/drawing|diagrams/data|threadedComments/threadedComment)[0-9]*\.xml": SHEET,
        r"docProps/core\.xml": SHEET,
    }
)
OPEN_DOCUMENT_PARTS: Final = _parts({r"(?:Object [0-9]+/)?(?:content|styles|meta)\.xml": OPEN_DOCUMENT})
EPUB_PARTS: Final = _parts({r".*\.(?:opf|ncx)": EPUB_LISTS})

XLSX_NAMES: Final = regex.compile(r"xl/(?:tables/table|pivotCache/pivotCacheDefinition)[0-9]*\.xml")
XLSX_FORMULAS: Final = regex.compile(r"xl/(?:worksheets/sheet[0-9]*|tables/table[0-9]*|workbook)\.xml")
_NAMED: Final = frozenset({"s:tableColumn", "s:cacheField"})
_FORMULAS: Final = names("s:f s:formula s:formula1 s:formula2 s:calculatedColumnFormula s:definedName :f :formula")
_COMPARED: Final = {"s:filter": "val", "s:customFilter": "val", "s:cfRule": "text"}
_LITERAL: Final = regex.compile(r'"((?:[^"]|"")*)"')
_OPERATOR: Final = regex.compile(r"(?:<>|[<>]=?|=)")


def column_names(text: str) -> frozenset[str]:
    """Return the columns that a table or a pivot table names; the texts of their header cells must stay equal."""
    found = tokens(text, OPEN_XML)
    opened = (token for token in found if token.kind in (XmlKind.OPEN, XmlKind.EMPTY) and token.name in _NAMED)
    return frozenset(token.attributes().get("name", "") for token in opened)


def compared_texts(text: str) -> frozenset[str]:
    """Return, in lower case, the texts that formulas, rules, filters and lists of a sheet compare cells with."""
    found: set[str] = set()
    is_formula = False
    for token in tokens(text, OPEN_XML):
        if token.kind is XmlKind.TEXT and is_formula:
            for literal in _LITERAL.findall(token.text):
                found |= {literal.replace('""', '"'), *literal.split(",")}
        elif token.name in _COMPARED:
            found.add(token.attributes().get(_COMPARED[token.name], ""))
        is_formula = token.kind is XmlKind.OPEN and token.name in _FORMULAS
    return frozenset(_OPERATOR.sub("", each, count=1).strip(" *?").lower() for each in found) - {""}


def keeping(vocabulary: Vocabulary, named: frozenset[str], compared: frozenset[str]) -> Vocabulary:
    """Return the vocabulary with texts that must stay, since a table names them, or a formula compares with them."""
    if not named and not compared:
        return vocabulary

    def reason(text: str) -> str:
        if text in named:
            return "a table names it"
        return "a formula compares with it" if text.strip().lower() in compared else ""

    return replace(vocabulary, kept=reason)
