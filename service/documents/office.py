"""The formats of office programs: their vocabularies, and the parts of their archives with text."""

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final
from urllib.parse import unquote
from zipfile import ZipInfo

import regex

from service.documents.archive import Archive
from service.documents.encodings import HTML, XML
from service.documents.formats import TextReader
from service.documents.passages import reason_to_keep
from service.documents.web_pages import split_xhtml
from service.documents.xml_document import Vocabulary, names, split_xml
from service.documents.xml_text import XmlKind, XmlToken, check, tokens

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
_EPUB: Final = {
    _DUBLIN_CORE: "dc",
    "http://www.daisy.org/z3986/2005/ncx/": "ncx",
    "http://www.idpf.org/2007/opf": "opf",
}

_CODE_STYLES: Final = regex.compile(
    r"(?:Source|Code|Verbatim|Preformatted|HTML)(?:_20_)?(?:Code|Text|Char|Block|Preformatted)?(?:Char)?|macro"
)
"""Names of the styles of code that pandoc and word processors give their paragraphs and words."""
_FONTS: Final = r"[^\"']*(?i:courier|consolas|menlo|monaco|lucida console|inconsolata|\bmono\b|monospace)"
_MONOSPACED: Final = regex.compile(rf""":rFonts\s[^>]*?:ascii\s*=\s*["']{_FONTS}""")
_CONTROLS: Final = regex.compile(r"<[\w.-]+:(?:checkbox|checkBox|date|dropDownList|comboBox|picture)\b")
_LINK: Final = regex.compile(r"<[\w.-]+:hlinkClick\s")
_DESCRIPTIONS: Final = names("descr title")
_PICTURES: Final = {":docPr": _DESCRIPTIONS, ":cNvPr": _DESCRIPTIONS, "p:cNvPr": _DESCRIPTIONS}


def _values(token: XmlToken) -> dict[str, str]:
    """Return the attributes of a tag by their local names."""
    return {name.rpartition(":")[2]: value for name, value in token.attributes().items()}


def _is_computed_field(token: XmlToken) -> bool:
    """Return True for a field whose result the word processor computes, unlike the words of a link."""
    if token.name != "w:fldSimple":
        return False
    return _values(token).get("instr", "").split()[:1] != ["HYPERLINK"]


WORD: Final = Vocabulary(  # also for slides, charts and diagrams, whose drawings word processors know, too
    namespaces=OPEN_XML,
    paragraphs=names("w:p a:p c:v p:text dc:title dc:subject dc:description"),
    attributes=_PICTURES,
    controls=_CONTROLS,
    link=_LINK,
    runs=names("w:r a:r"),
    texts=names("w:t a:t"),
    characters={"w:noBreakHyphen": "-", "w:softHyphen": ""},
    wrappers=names("w:hyperlink w:fldSimple w:ins w:moveTo w:smartTag w:customXml w:sdt w:sdtContent w:dir w:bdo"),
    links=names("w:hyperlink w:fldSimple"),
    properties=names("w:rPr w:sdtPr w:smartTagPr w:customXmlPr a:rPr"),
    breaks=names("w:br w:tab w:cr w:ptab a:br"),
    copied=names("w:del w:moveFrom w:instrText w:ruby a:fld"),
    is_untouched=_is_computed_field,
)
_HEADERS: Final = names("s:oddHeader s:oddFooter s:evenHeader s:evenFooter s:firstHeader s:firstFooter")
SHEET: Final = Vocabulary(
    namespaces=OPEN_XML,
    paragraphs=names("s:si s:is s:text a:p c:v thread:text dc:title dc:subject dc:description") | _HEADERS,
    headers=_HEADERS,
    attributes={**_PICTURES, "s:dataValidation": names("promptTitle prompt errorTitle error")},
    link=_LINK,
    runs=names("s:r a:r"),
    texts=names("s:t a:t"),
    properties=names("s:rPr a:rPr"),
    breaks=names("a:br"),
    copied=names("s:rPh a:fld"),
)


def _is_computed_cell(token: XmlToken) -> bool:
    """Return True for a cell whose text the office program computes, from a number, date or formula."""
    if token.name not in ("table:table-cell", "table:covered-table-cell"):
        return False
    values = _values(token)
    return "formula" in values or values.get("value-type", "string") != "string"


OPEN_DOCUMENT: Final = Vocabulary(
    namespaces=_OPEN_DOCUMENT,
    paragraphs=names("text:p text:h svg-compatible:title svg-compatible:desc dc:title dc:subject dc:description"),
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

_PAGE_TYPES: Final = frozenset({"application/xhtml+xml", "text/html"})
_SURVEYED: Final = regex.compile(
    r"xl/(?:tables/table[0-9]*|pivotCache/pivotCacheDefinition[0-9]*|worksheets/sheet[0-9]*|workbook)\.xml"
    r"|.*\.opf|word/(?:styles|document)\.xml|(?:styles|content)\.xml"
)
_NAMED: Final = frozenset({"s:tableColumn", "s:cacheField"})
_FORMULAS: Final = names("s:f s:formula s:formula1 s:formula2 s:calculatedColumnFormula s:definedName :f :formula")
_COMPARED: Final = {"s:filter": "val", "s:customFilter": "val", "s:cfRule": "text"}
_LITERAL: Final = regex.compile(r'"((?:[^"]|"")*)"')
_OPERATOR: Final = regex.compile(r"(?:<>|[<>]=?|=)")


def code_styles(text: str) -> set[str]:
    """Return the styles of code that a part defines: by their names, their fonts, or the styles they vary."""
    found: set[str] = set()
    name = ""
    for token in tokens(text, {}):
        local, values = token.name.rpartition(":")[2], _values(token)
        if local == "body":
            break
        if local == "style" and token.kind is not XmlKind.CLOSE:
            name = values.get("styleId") or values.get("name", "")
        font = values.get("ascii") or values.get("font-name") or values.get("font-family", "")
        based_on = values.get("parent-style-name") or (values.get("val", "") if local == "basedOn" else "")
        is_code = regex.match(_FONTS, font) is not None and local in ("rFonts", "text-properties")
        if name and (is_code or based_on in found or any(map(_CODE_STYLES.fullmatch, (name, based_on)))):
            found.add(name)
    return set() if found & {"Normal", "Standard"} else found


def is_typed(text: str) -> bool:
    """Return True if most of a document is in a font of code, as scripts of films are: then it is no code."""
    return 2 * len(_MONOSPACED.findall(text)) > len(regex.findall(r"<w:t[ >]", text))


@dataclass
class Survey:
    """The facts that a first look at an archive tells about its parts."""

    named: set[str] = field(default_factory=set)
    """The columns that a table or a pivot table names; the texts of their header cells must stay equal."""
    compared: set[str] = field(default_factory=set)
    """Texts, in lower case, that formulas, rules, filters and lists compare cells with."""
    codes: set[str] = field(default_factory=set)
    """Styles of code."""
    pages: set[str] = field(default_factory=set)
    """The names of parts that the package of a book declares as pages."""
    is_typed: bool = False
    """True if code has no font of its own."""

    def add(self, part: str, text: str) -> None:
        """Read the part of a sheet, or the package of a book."""
        is_formula = False
        for token in tokens(text, OPEN_XML | _EPUB):
            if token.kind is XmlKind.TEXT and is_formula:
                for literal in _LITERAL.findall(token.text):
                    self._compare(literal.replace('""', '"'), *literal.split(","))
            elif token.kind is XmlKind.CLOSE:
                pass
            elif token.name in _COMPARED:
                self._compare(token.attributes().get(_COMPARED[token.name], ""))
            elif token.name in _NAMED:
                self.named.add(token.attributes().get("name", ""))
            elif token.name == "opf:item" and (values := token.attributes()).get("media-type") in _PAGE_TYPES:
                page = posixpath.join(posixpath.dirname(part), unquote(values.get("href", "")))
                self.pages.add(posixpath.normpath(page))
            is_formula = token.kind is XmlKind.OPEN and token.name in _FORMULAS

    def _compare(self, *texts: str) -> None:
        self.compared |= {_OPERATOR.sub("", each, count=1).strip(" *?").lower() for each in texts} - {""}


def keeping(vocabulary: Vocabulary, known: Survey) -> Vocabulary:
    """Return the vocabulary with texts that stay: those that a table names or a formula compares with, and code."""

    def reason(text: str) -> str:
        if text in known.named:
            return "a table names it"
        return "a formula compares with it" if text.strip().lower() in known.compared else reason_to_keep(text, "cell")

    def is_untouched(token: XmlToken) -> bool:
        is_code = token.name in ("text:p", "text:span") and _values(token).get("style-name") in known.codes
        return is_code or vocabulary.is_untouched(token)

    if vocabulary is OPEN_DOCUMENT:
        return replace(vocabulary, is_untouched=is_untouched)
    if vocabulary is not WORD:
        return replace(vocabulary, kept=reason)
    styles = "|".join([_CODE_STYLES.pattern, *map(regex.escape, known.codes)])
    code = rf""":[pr]Style\s[^>]*?:val\s*=\s*["'](?:{styles})["']"""
    word = code if known.is_typed else f"{code}|{_MONOSPACED.pattern}"
    return replace(vocabulary, code=regex.compile(code), word=regex.compile(word))


def survey(archive: Archive) -> Survey:
    """Look at the parts that say something about others. Raises `InvalidRequest`."""
    known = Survey()
    for member in archive.members:
        name = member.filename
        if _SURVEYED.fullmatch(name) is None:
            continue
        text, _ = XML.decode(archive.read(member))
        if name == "word/document.xml":
            known.is_typed = is_typed(text)
            continue
        check(text)
        if name.endswith(("styles.xml", "content.xml")):
            known.codes |= code_styles(text)
        else:
            known.add(name, text)
    return known


@dataclass(frozen=True, kw_only=True)
class ArchiveReader:
    """The parts of an archive that hold text, by patterns for their names."""

    main: str
    """A part that every archive of the format has."""
    parts: str
    vocabulary: Vocabulary
    """The vocabulary of the parts."""
    pages: str = ""
    """Parts in XHTML, besides those that a package declares."""

    def readers(self, archive: Archive) -> Iterator[tuple[ZipInfo, TextReader | None]]:
        """Yield each part with its reader; None for a part without text. Raises `InvalidRequest`."""
        known = survey(archive)
        vocabulary = keeping(self.vocabulary, known)
        for member in archive.members:
            name = member.filename
            if name in known.pages or regex.fullmatch(self.pages, name):
                yield member, TextReader(HTML, split_xhtml)
            elif regex.fullmatch(self.parts, name):
                yield member, TextReader(XML, partial(split_xml, vocabulary=vocabulary))
            else:
                yield member, None


_DRAWN: Final = r"(?:charts/chart|diagrams/data|diagrams/drawing)[0-9]*\.xml"
DOCX: Final = ArchiveReader(
    main=r"word/document[0-9]*\.xml",
    parts=rf"word/(?:(?:document|header|footer|footnotes|endnotes|comments)[0-9]*\.xml|{_DRAWN})|docProps/core\.xml",
    vocabulary=WORD,
)
PPTX: Final = ArchiveReader(
    main=r"ppt/presentation[0-9]*\.xml",
    parts=rf"ppt/(?:(?:slides/slide|notesSlides/notesSlide)[0-9]*\.xml|comments/[^/]+\.xml|{_DRAWN})|docProps/core\.xml",
    vocabulary=WORD,
)
XLSX: Final = ArchiveReader(
    main=r"xl/workbook[0-9]*\.xml",
    parts=r"xl/(?:sharedStrings|comments[0-9]*|comments/comment[0-9]*|worksheets/sheet[0-9]*)\.xml"
    r"|xl/(?:charts/chart|drawings/drawing|diagrams/data|threadedComments/threadedComment)[0-9]*\.xml"
    r"|docProps/core\.xml",
    vocabulary=SHEET,
)
ODF: Final = ArchiveReader(
    main=r"content\.xml", parts=r"(?:Object [0-9]+/)?(?:content|styles|meta)\.xml", vocabulary=OPEN_DOCUMENT
)
EPUB: Final = ArchiveReader(
    main=r"META-INF/container\.xml",
    parts=r".*\.(?:opf|ncx)",
    vocabulary=EPUB_LISTS,
    pages=r".*\.(?i:xhtml|html|htm)",
)
