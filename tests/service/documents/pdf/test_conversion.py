"""PDFs as documents: translated as docx or Markdown, and refused with a reason if they are hostile or broken."""

import io
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import regex

from service.documents.document import Document, open_document
from service.documents.limits import DocumentLimits
from service.documents.paragraph import ReadOptions
from service.errors import InvalidRequest, ServiceError, TooLong
from tests.service.documents.conftest import Rewrite
from tests.service.documents.pdf.test_reader import PROSE, SCAN
from tests.service.documents.pdf.writing import Text, column, file_of, link_of, page_of, pdf_of

PAGE: Final = [
    Text(50, 50, "The <Report> & more", 20, "B"),
    *column(50, 100, *PROSE),
    Text(50, 190, "(iv)"),
    Text(75, 190, "a fourth"),
    Text(50, 204, "•"),
    Text(75, 204, "an item"),
    *column(50, 230, "if ready:", font="C"),
    *(Text(x, 300 + y, f"cell {y} {x}") for y in (0, 12, 24) for x in (50, 200)),
    Text(50, 400, "Read"),
    Text(78, 400, "this page"),
    Text(126, 400, "now."),
]
PDF: Final = pdf_of(PAGE, annotations=link_of("73 390 118 410", "https://example.org/?a=1&b=2"))
CATALOG: Final = b"<</Type/Catalog/Pages 2 0 R>>"


def _open(tmp_path: Path, content: bytes) -> Document:
    path = tmp_path / "source"
    path.write_bytes(content)
    return open_document(path, "a.pdf", ReadOptions(target="fr"), DocumentLimits())


def test_docx(tmp_path: Path, rewrite: Rewrite) -> None:
    archive = zipfile.ZipFile(io.BytesIO(rewrite("a.pdf", PDF)))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["output-a.pdf", "source-a.pdf"]
    body = archive.read("word/document.xml").decode()
    paragraphs = regex.findall(r"<w:p>.*?</w:p>", body)
    assert '<w:pStyle w:val="heading1"/>' in paragraphs[0]
    texts = [regex.sub(r"<[^>]*>", "", each) for each in paragraphs]
    assert texts[:2] == ["THE &lt;REPORT&gt; &amp; MORE", " ".join(PROSE).upper()]
    assert texts[2:5] == ["(iv)A FOURTH", "AN ITEM", "if ready:"]
    assert "<w:numPr>" in paragraphs[3]
    assert body.count("<w:tr>") == 3
    assert "CELL 24 200" in body
    assert regex.search(r'<w:hyperlink r:id="link0"><w:r>.*?>THIS PAGE<', body)
    links = archive.read("word/_rels/document.xml.rels").decode()
    assert 'Target="https://example.org/?a=1&amp;b=2" TargetMode="External"' in links


def test_a_docx_of_a_pdf_can_be_translated_again(rewrite: Rewrite) -> None:
    first = rewrite("a.pdf", PDF)
    again = zipfile.ZipFile(io.BytesIO(rewrite("a.docx", first, str.lower))).read("word/document.xml")
    assert " ".join(PROSE).lower().encode() in again


def test_markdown(rewrite: Rewrite) -> None:
    assert rewrite("a.pdf", PDF, output_format="md").decode().split("\n\n") == [
        "# THE \\<REPORT\\> & MORE",
        " ".join(PROSE).upper(),
        "- (IV) A FOURTH\n- AN ITEM",
        "```\nif ready:\n```",
        "| CELL 0 50 | CELL 0 200 |\n| --- | --- |\n| CELL 12 50 | CELL 12 200 |\n| CELL 24 50 | CELL 24 200 |",
        "READ [THIS PAGE](https://example.org/?a=1&b=2) NOW.\n",
    ]


def test_another_format_is_refused(rewrite: Rewrite) -> None:
    with pytest.raises(InvalidRequest, match=r"^output_format: must be docx or md, for this document$"):
        rewrite("a.pdf", PDF, output_format="odt")


def test_pages_without_text_are_named(tmp_path: Path) -> None:
    document = _open(tmp_path, pdf_of(PAGE, SCAN, SCAN))
    document.count()
    assert document.report.warnings == ["pages without text, only pictures: 2-3; recognise their text (OCR) first"]


def _with(content: bytes, entries: bytes = b"", *others: bytes) -> bytes:
    """Return a PDF of one page with a content that was made by hand."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<<%b>>>>" % entries
    return file_of([CATALOG, b"<</Type/Pages/Kids[3 0 R]/Count 1>>", page, content, *others])


def _packed(content: bytes, entries: bytes = b"") -> bytes:
    packed = zlib.compress(content)
    return b"<</Length %d/Filter/FlateDecode%b>>stream\n%b\nendstream" % (len(packed), entries, packed)


def _forms(depth: int) -> bytes:
    """Return a page whose forms draw each other twice, so that the last is drawn 2 ** depth times."""
    entries = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X %d 0 R>>>>"
    forms = [_packed(b"/X Do /X Do", entries % (number + 6)) for number in range(depth)]
    return _with(_packed(b"/X Do"), b"/XObject<</X 5 0 R>>", *forms, _packed(page_of(PAGE), entries % 5))


def _pages(count: int) -> bytes:
    kids = b"3 0 R " * count
    return file_of([CATALOG, b"<</Type/Pages/Kids[%b]/Count %d>>" % (kids, count), b"<</Type/Page/Parent 2 0 R>>"])


ENCRYPTED: Final = b"/Encrypt<</Filter/Standard/V 1/R 2/P -4/O<%b>/U<%b>>>/ID[<00><00>]" % (b"00" * 32, b"11" * 32)
REFUSED: Final[dict[str, tuple[bytes | Callable[[], bytes], type[ServiceError], str]]] = {
    "nothing behind the beginning": (b"%PDF-1.7", InvalidRequest, "the PDF is broken"),
    "half a file": (PDF[: len(PDF) // 2], InvalidRequest, "the PDF is broken|page 1 of the PDF is broken"),
    "a scan": (pdf_of(SCAN), InvalidRequest, "no text, only pictures; recognise its text"),
    "an empty page": (pdf_of(b""), InvalidRequest, "the PDF has no text$"),
    "a password": (
        file_of([CATALOG, b"<</Type/Pages/Kids[]/Count 0>>"], ENCRYPTED),
        InvalidRequest,
        "encrypted; remove its password first",
    ),
    "ten thousand pages": (lambda: _pages(10_000), TooLong, "10000 pages, the limit is 2000"),
    "pages that contain themselves": (
        file_of([CATALOG, b"<</Type/Pages/Kids[2 0 R 2 0 R]/Count 9>>"]),
        InvalidRequest,
        "page 1 of the PDF is broken",
    ),
    "a page that expands a thousand times": (lambda: _with(_packed(bytes(10**9))), TooLong, "of memory, or fails"),
    "forms without end": (lambda: _forms(30), ServiceError, "of memory, or fails|seconds of a processor"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, tmp_path: Path) -> None:
    content, kind, problem = REFUSED[case]
    with pytest.raises(kind, match=f"^file: .*(?:{problem})"):
        _open(tmp_path, content() if callable(content) else content).count()
    assert [each.name for each in tmp_path.iterdir()] == ["source"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(_with(_packed(b"/X Do"), b"/XObject<</X 4 0 R>>"), id="a form in itself"),
        pytest.param(_with(_packed(b"[" * 1_000_000)), id="nested operands"),
        pytest.param(pdf_of([Text(50, 50, "x", 1e30), Text(50, 50, "y", -1e-30)]), id="sizes"),
        pytest.param(pdf_of([Text(1e38, -1e38, "x", 10, "F", "1e38 0 0 1e38")]), id="places"),
    ],
)
def test_nonsense_beside_text_does_no_harm(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"^file: the PDF has no text"):
        _open(tmp_path, content).count()


def test_many_texts_and_lines_on_a_page_are_read_in_time(tmp_path: Path) -> None:
    scattered = [Text(number * 7919 % 600, number * 104729 % 800, "ab") for number in range(20_000)]
    lines = "".join(f"{number % 500} {number % 800} 90 9 re S " for number in range(50_000))
    assert _open(tmp_path, pdf_of(page_of(scattered, lines))).count().characters > 1_000
