"""PDFs written by hand: texts at places of pages."""

import zlib
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

FONTS: Final = {"F": "Helvetica", "B": "Helvetica-Bold", "I": "Helvetica-Oblique", "C": "Courier"}
_FIRST_FONT: Final = 3


class Text(NamedTuple):
    """A text on a page. Its baseline lies `y` points below the page's top."""

    x: float
    y: float
    text: str
    size: float = 10
    font: str = "F"
    matrix: str = "1 0 0 1"


def column(x: float, y: float, *lines: str, size: float = 10, leading: float = 12, font: str = "F") -> list[Text]:
    """Return lines one below another."""
    return [Text(x, y + number * leading, line, size, font) for number, line in enumerate(lines)]


def page_of(texts: Iterable[Text], drawn: str = "") -> bytes:
    """Return the content of a page with texts, after drawings in PDF's operators."""
    shown = "\n".join(
        f"BT /{each.font} {each.size} Tf {each.matrix} {each.x} {800 - each.y} Tm ({_escaped(each.text)}) Tj ET"
        for each in texts
    )
    return f"{drawn}\n{shown}".encode("cp1252")


def link_of(rectangle: str, address: str) -> str:
    return f"<</Type/Annot/Subtype/Link/Rect[{rectangle}]/A<</S/URI/URI({address})>>>>"


def pdf_of(*pages: Sequence[Text] | bytes, annotations: str = "", fonts: Sequence[bytes] = ()) -> bytes:
    """Return a PDF of pages. `annotations` are those of the first; `fonts` begin with the font U."""
    contents = [each if isinstance(each, bytes) else page_of(each) for each in pages]
    own = [f"<</Type/Font/Subtype/Type1/BaseFont/{name}/Encoding/WinAnsiEncoding>>".encode() for name in FONTS.values()]
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"", *own, *fonts]
    found = " ".join(f"/{name} {number} 0 R" for number, name in enumerate((*FONTS, "U"), _FIRST_FONT))
    kids = []
    for number, content in enumerate(contents):
        packed = zlib.compress(content)
        objects.append(b"<</Length %d/Filter/FlateDecode>>stream\n%b\nendstream" % (len(packed), packed))
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources<</Font<<{found}>>>>/Contents "
            f"{len(objects)} 0 R/Annots[{'' if number else annotations}]>>".encode()
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<</Type/Pages/Kids[{' '.join(kids)}]/Count {len(kids)}>>".encode()
    return file_of(objects)


def file_of(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """Return a PDF of objects, whose first is the catalog, with further entries of its trailer."""
    written = b"%PDF-1.7\n"
    places = []
    for number, each in enumerate(objects, 1):
        places.append(len(written))
        written += b"%d 0 obj\n%b\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    end = b"trailer<</Size %d/Root 1 0 R%b>>\nstartxref\n%d\n%%%%EOF" % (size, trailer, len(written))
    return written + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + end


def unicode_fonts(letters: str) -> list[bytes]:
    """Return a font whose codes 1, 2 ... are `letters`, several of which may share a code, between slashes.

    It is the first of the further fonts of `pdf_of`.
    """
    first = _FIRST_FONT + len(FONTS)
    lines = "".join(
        f"<{code:04X}> <{each.encode('utf-16-be').hex()}>\n" for code, each in enumerate(letters.split("/"), 1)
    )
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def "
        f"1 begincodespacerange <0000> <FFFF> endcodespacerange {lines.count(chr(10))} beginbfchar\n{lines}endbfchar "
        "endcmap end end"
    ).encode()
    return [
        f"<</Type/Font/Subtype/Type0/BaseFont/X/Encoding/Identity-H/DescendantFonts[{first + 1} 0 R]"
        f"/ToUnicode {first + 2} 0 R>>".encode(),
        b"<</Type/Font/Subtype/CIDFontType2/BaseFont/X/DW 500/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)"
        b"/Supplement 0>>/FontDescriptor<</Type/FontDescriptor/FontName/X/Flags 4/FontBBox[0 0 500 800]"
        b"/ItalicAngle 0/Ascent 800/Descent 0/CapHeight 800/StemV 80>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(cmap), cmap),
    ]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
