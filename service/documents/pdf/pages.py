"""The text on the pages of a PDF, as PDFium reads it, with the drawn lines that tables have."""

import ctypes
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium
import regex

from service.documents.pdf.letters import Fragment, Gatherer, Letter, Style
from service.errors import InvalidRequest

_BOLD: Final = regex.compile(r"bold|black|heavy|demi|medi(?!um)|cmbx|cmssbx|sfbx|(?-i:[-,]B[dI]?\b)", regex.I)
_ITALIC: Final = regex.compile(r"ital|obli|slant|cmti|cmsl|cmmi|sfti|(?-i:[-,](?:It|BI|I)\b)", regex.I)
_FIXED: Final = regex.compile(r"mono|courier|consol|typewriter|menlo|cmtt|cmsltt|sftt", regex.I)
# Flags of a font's descriptor in the PDF.
_IS_FIXED: Final = 1 << 0
_IS_ITALIC: Final = 1 << 6
_IS_BOLD: Final = 1 << 18
_UNKNOWN: Final = 0xFFFD
_SPACES: Final = frozenset({0, 9, 10, 13, 32, 160})
_SYMBOLS: Final = {0xF0B7: "•", 0xF0A7: "▪", 0xF0D8: "➢", 0xF0FC: "✓", 0xF02D: "-", 0xAD: "-", 0x02: "-"}
"""Characters of Word's symbol fonts, and hyphens: PDFium marks those at the ends of lines with 2."""
_MOST_OBJECTS: Final = 20_000
"""Objects of a page that are looked at for pictures and the lines of tables."""
_MOST_LINKS: Final = 1_000
_MOST_COMMENTS: Final = 1_000
_COMMENT_SIZE: Final = 10.0

Box = tuple[float, float, float, float]
"""The left, bottom, right and top of something on a page."""


class Rule(NamedTuple):
    """A horizontal line, such as one between the rows of a table."""

    left: float
    right: float
    y: float


@dataclass(slots=True)
class Page:
    """A page's text, by the direction in which it runs; the direction with the most letters comes first."""

    number: int
    directions: list[tuple[list[Fragment], list[Rule]]]
    letters: int
    unmapped: int
    """Letters whose font does not say which characters they are; PDFium guesses some, often rightly."""
    has_picture: bool
    """True if pictures or drawings fill much of the page, as a scan does."""


class _Look(NamedTuple):
    """The properties that all letters of one object of text share."""

    style: Style
    size: float
    angle: int
    cosine: float
    sine: float


def open_pdf(data: bytes) -> pypdfium2.PdfDocument:
    """Open a PDF. Raises `InvalidRequest`."""
    try:
        return pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if error.err_code in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY):
            raise InvalidRequest("file", "the PDF is encrypted; remove its password first") from None
        raise InvalidRequest("file", "the PDF is broken; open it in a viewer and save it anew") from None


def read_page(document: pypdfium2.PdfDocument, index: int) -> Page:
    """Read the text of a page, with that of its comments and form fields. Raises `InvalidRequest`."""
    try:
        page = document[index]
        links = list(_links(document, page))
        comments = _taken_comments(page)
        if pdfium.FPDFPage_GetAnnotCount(page.raw) > 0:
            pdfium.FPDFPage_Flatten(page.raw, pdfium.FLAT_NORMALDISPLAY)
            page.close()
            page = document[index]
        text = page.get_textpage()
    except pypdfium2.PdfiumError:
        raise InvalidRequest("file", f"page {index + 1} of the PDF is broken") from None
    reader = _PageReader(text, page.get_bbox(), links)
    groups = sorted(reader.read().items(), key=lambda item: -sum(len(each.text) for each in item[1]))
    boxes, has_picture = _drawings(page)
    text.close()
    page.close()
    # Only the main text has tables with lines: a map has texts in a hundred directions.
    rules = [*_rules(boxes, groups[0][0])] if groups else []
    directions = [(fragments, [] if number else rules) for number, (_, fragments) in enumerate(groups)]
    directions += [([Fragment(0.0, 1.0, 0.0, _COMMENT_SIZE, [(text, Style())])], []) for text in comments]
    return Page(index + 1, directions, reader.letters, reader.unmapped, has_picture)


class _PageReader:
    def __init__(self, text: pypdfium2.PdfTextPage, box: Box, links: Sequence[tuple[Box, str]]) -> None:
        self._text = text.raw
        self._count = text.count_chars()
        self._box = box
        self._links = links
        self._looks: dict[int, _Look] = {}
        self.letters = self.unmapped = 0

    def read(self) -> dict[int, list[Fragment]]:
        """Return the fragments, by the angle at which they run."""
        gatherer = Gatherer()
        rect, x, y = pdfium.FS_RECTF(), ctypes.c_double(), ctypes.c_double()
        has_space = False
        for index in range(self._count):
            code = pdfium.FPDFText_GetUnicode(self._text, index)
            if code in _SPACES:
                has_space = True
                continue
            pdfium.FPDFText_GetLooseCharBox(self._text, index, rect)
            pdfium.FPDFText_GetCharOrigin(self._text, index, x, y)
            if not self._is_on_page(x.value, y.value):
                continue
            look = self._look(index)
            self.letters += 1
            if code > sys.maxunicode:
                code = _UNKNOWN
            self.unmapped += code == _UNKNOWN or pdfium.FPDFText_HasUnicodeMapError(self._text, index) == 1
            left, right = _interval(rect, look) if look.angle else (rect.left, rect.right)
            baseline = x.value * look.sine - y.value * look.cosine
            style = self._linked(look.style, rect) if self._links else look.style
            character = _SYMBOLS.get(code) or chr(code)
            letter = Letter(character, left, right, baseline, look.size, look.angle)
            gatherer.add(letter, style, has_space=has_space)
            has_space = False
        gatherer.end()
        return gatherer.fragments

    def _is_on_page(self, x: float, y: float) -> bool:
        left, bottom, right, top = self._box
        return left - 1 <= x <= right + 1 and bottom - 1 <= y <= top + 1

    def _look(self, index: int) -> _Look:
        pointer = pdfium.FPDFText_GetTextObject(self._text, index)
        address = ctypes.addressof(pointer.contents) if pointer else 0
        if address not in self._looks:
            self._looks[address] = self._new_look(index)
        return self._looks[address]

    def _new_look(self, index: int) -> _Look:
        matrix, name, flags = pdfium.FS_MATRIX(), ctypes.create_string_buffer(200), ctypes.c_int()
        pdfium.FPDFText_GetMatrix(self._text, index, matrix)
        pdfium.FPDFText_GetFontInfo(self._text, index, name, len(name), flags)
        font = name.value.decode(errors="replace").rpartition("+")[2]
        style = Style(
            bold=bool(_BOLD.search(font) or flags.value & _IS_BOLD),
            italic=bool(_ITALIC.search(font) or flags.value & _IS_ITALIC),
            fixed=bool(_FIXED.search(font) or flags.value & _IS_FIXED),
        )
        angle = round(math.degrees(math.atan2(matrix.b, matrix.a))) % 360
        size = abs(pdfium.FPDFText_GetFontSize(self._text, index)) * (math.hypot(matrix.c, matrix.d) or 1.0)
        return _Look(style, max(size, 1.0), angle, *_direction(angle))

    def _linked(self, style: Style, rect: Any) -> Style:
        x, y = (rect.left + rect.right) / 2, (rect.top + rect.bottom) / 2
        for (left, bottom, right, top), address in self._links:
            if left <= x <= right and bottom <= y <= top:
                return style._replace(link=address)
        return style


def _direction(angle: int) -> tuple[float, float]:
    return math.cos(math.radians(angle)), math.sin(math.radians(angle))


def _interval(rect: Any, look: _Look) -> tuple[float, float]:
    """Return the beginning and the end of a letter along its line."""
    along = [x * look.cosine + y * look.sine for x in (rect.left, rect.right) for y in (rect.bottom, rect.top)]
    if look.angle % 90:  # the box stands upright around a slanted letter
        middle = sum(along) / 4
        return middle - look.size / 4, middle + look.size / 4
    return min(along), max(along)


def _taken_comments(page: pypdfium2.PdfPage) -> list[str]:
    """Take the comments that are written on a page from it, as they may lie over its text; return their texts."""
    texts = []
    for index in range(min(pdfium.FPDFPage_GetAnnotCount(page.raw), _MOST_COMMENTS) - 1, -1, -1):
        annotation = pdfium.FPDFPage_GetAnnot(page.raw, index)
        is_comment = pdfium.FPDFAnnot_GetSubtype(annotation) == pdfium.FPDF_ANNOT_FREETEXT
        if is_comment:
            size = pdfium.FPDFAnnot_GetStringValue(annotation, b"Contents", None, 0)
            buffer = (ctypes.c_ushort * (size // 2))()
            pdfium.FPDFAnnot_GetStringValue(annotation, b"Contents", buffer, size)
            texts.append(bytes(buffer).decode("utf-16-le", "replace").rstrip("\0"))
        pdfium.FPDFPage_CloseAnnot(annotation)
        if is_comment:
            pdfium.FPDFPage_RemoveAnnot(page.raw, index)
    return [text for text in reversed(texts) if text.strip()]


def _links(document: pypdfium2.PdfDocument, page: pypdfium2.PdfPage) -> Iterator[tuple[Box, str]]:
    """Yield the rectangles of links to addresses, and the addresses."""
    position, link, rect = ctypes.c_int(0), pdfium.FPDF_LINK(), pdfium.FS_RECTF()
    for _ in range(_MOST_LINKS):
        if not pdfium.FPDFLink_Enumerate(page.raw, position, link):
            return
        action = pdfium.FPDFLink_GetAction(link)
        if not action or pdfium.FPDFAction_GetType(action) != pdfium.PDFACTION_URI:
            continue
        buffer = ctypes.create_string_buffer(2_000)
        length = pdfium.FPDFAction_GetURIPath(document.raw, action, buffer, len(buffer))
        address = buffer.value.decode("utf-8", "replace")
        is_safe = address.lower().startswith(("http://", "https://", "mailto:"))
        if length <= len(buffer) and is_safe and pdfium.FPDFLink_GetAnnotRect(link, rect):
            yield (rect.left, rect.bottom, rect.right, rect.top), address


def _drawings(page: pypdfium2.PdfPage) -> tuple[list[Box], bool]:
    """Return the boxes of drawn lines and frames, and True if pictures or drawings fill a third of the page."""
    lines: list[Box] = []
    drawn = 0.0
    numbers = [ctypes.c_float() for _ in range(4)]
    for index in range(min(pdfium.FPDFPage_CountObjects(page.raw), _MOST_OBJECTS)):
        found = pdfium.FPDFPage_GetObject(page.raw, index)
        kind = pdfium.FPDFPageObj_GetType(found)
        if kind == pdfium.FPDF_PAGEOBJ_TEXT or not pdfium.FPDFPageObj_GetBounds(found, *numbers):
            continue
        left, bottom, right, top = (each.value for each in numbers)
        drawn += (right - left) * (top - bottom)
        if kind == pdfium.FPDF_PAGEOBJ_PATH:
            lines.append((left, bottom, right, top))
    left, bottom, right, top = page.get_bbox()
    return lines, drawn > (right - left) * (top - bottom) / 3


def _rules(boxes: Sequence[Box], angle: int) -> Iterator[Rule]:
    """Yield the horizontal lines among boxes for text that runs at an angle: flat boxes, and the edges of others."""
    cosine, sine = _direction(angle)
    for left, bottom, right, top in boxes:
        start, end = sorted((left * cosine + bottom * sine, right * cosine + top * sine))
        above, below = sorted((left * sine - bottom * cosine, right * sine - top * cosine))
        if end - start > 20:
            yield from (Rule(start, end, y) for y in ({above} if below - above < 3 else {above, below}))
