"""Documents of office programs: what is translated, and what keeps its bytes."""

import io
import zipfile
from pathlib import Path

import pytest
import regex

from tests.service.documents.conftest import FILES, Noting, Rewrite, same, sides

ARCHIVES = sorted(path for path in FILES.iterdir() if path.suffix != ".srt")
_TEXT = {
    "report.docx": "word/document.xml word/footnotes.xml word/header1.xml",
    "report.odt": "content.xml styles.xml",
    "report.epub": "OEBPS/toc.xhtml OEBPS/content.opf OEBPS/sections/section0001.xhtml OEBPS/toc.ncx",
    "sheet.xlsx": "xl/sharedStrings.xml xl/worksheets/sheet1.xml",
    "sheet.ods": "content.xml styles.xml",
    "slides.pptx": "ppt/slides/slide1.xml",
    "slides.odp": "content.xml",
}


def _parts(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {member.filename: archive.read(member) for member in archive.infolist()}


def _part(data: bytes, name: str) -> str:
    return _parts(data)[name].decode()


def _archive(parts: dict[str, str]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return written.getvalue()


@pytest.mark.parametrize("path", ARCHIVES, ids=lambda path: path.name)
def test_without_a_change_every_part_keeps_its_bytes_and_its_place(path: Path, rewrite: Rewrite) -> None:
    written = rewrite(path.name, path.read_bytes(), same)
    assert list(_parts(written).items()) == list(_parts(path.read_bytes()).items())


@pytest.mark.parametrize("path", ARCHIVES, ids=lambda path: path.name)
def test_only_texts_differ(path: Path, rewrite: Rewrite) -> None:
    """Parts without text keep their bytes, and others their tags, attributes and white space between tags."""
    before, after = _parts(path.read_bytes()), _parts(rewrite(path.name, path.read_bytes()))
    assert {name for name in before if before[name] != after[name]} == set(_TEXT[path.name].split())
    for name in _TEXT[path.name].split():
        markup = [regex.findall(rb"<[^>]*>", each[name]) for each in (before, after)]
        # A run without text may be split, and text elements say that they keep their space.
        plain = [[each for each in tags if not regex.match(rb"</?(?:w:|a:)?(?:r|t|rPr)\b", each)] for tags in markup]
        assert plain[0] == plain[1], name


def test_a_mimetype_stays_first_and_uncompressed(rewrite: Rewrite) -> None:
    for name in ("report.odt", "report.epub"):
        written = rewrite(name, (FILES / name).read_bytes())
        assert written[30:38] == b"mimetype"
        assert zipfile.ZipFile(io.BytesIO(written)).infolist()[0].compress_type == zipfile.ZIP_STORED


def test_bold_stays_on_its_word(rewrite: Rewrite) -> None:
    written = _part(rewrite("report.docx", (FILES / "report.docx").read_bytes()), "word/document.xml")
    bold = regex.findall(r"<w:r><w:rPr>(?:(?!</w:rPr>).)*<w:b/>(?:(?!</w:rPr>).)*</w:rPr><w:t[^>]*>([^<]*)", written)
    assert [each for each in bold if each.islower()] == []
    assert "WELCOMES" in bold
    assert "HOUSE IS RED" in bold


WORD = (
    '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:w14="w14">'
    "<w:body>{}</w:body></w:document>"
)
T = '<w:t xml:space="preserve">'


def _word(body: str, rewrite: Rewrite) -> str:
    written = rewrite("a.docx", _archive({"word/document.xml": WORD.format(body)}))
    before, after = WORD.split("{}")
    return _part(written, "word/document.xml").removeprefix(before).removesuffix(after)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            '<w:p><w:pPr><w:b/></w:pPr><w:r w:rsidR="1"><w:t>one </w:t></w:r><w:r w:rsidR="1"><w:t>word</w:t></w:r>'
            "</w:p>",
            f'<w:p><w:pPr><w:b/></w:pPr><w:r w:rsidR="1">{T}ONE WORD</w:t></w:r></w:p>',
            id="runs of one formatting are joined",
        ),
        pytest.param(
            "<w:p><w:r><w:t>before</w:t><w:tab/><w:t>after</w:t></w:r></w:p>",
            f"<w:p><w:r>{T}BEFORE</w:t></w:r><w:r><w:tab/></w:r><w:r>{T}AFTER</w:t></w:r></w:p>",
            id="a tab stays between",
        ),
        pytest.param(
            "<w:p><w:r><w:t>well</w:t><w:noBreakHyphen/><w:t>known in</w:t><w:softHyphen/><w:t>fo</w:t></w:r></w:p>",
            f"<w:p><w:r>{T}WELL-KNOWN INFO</w:t></w:r></w:p>",
            id="hyphens are characters",
        ),
        pytest.param(
            "<w:p><w:r><w:t>a &lt;b&gt; &amp; c &#233;</w:t></w:r></w:p>",
            f"<w:p><w:r>{T}A &lt;B&gt; &amp; C É</w:t></w:r></w:p>",
            id="characters of markup",
        ),
        pytest.param(
            "<w:p><w:r><w:t>I. part</w:t></w:r></w:p>",
            f"<w:p><w:r>{T}I. </w:t></w:r><w:r>{T}PART</w:t></w:r></w:p>",
            id="typed numbering",
        ),
    ],
)
def test_runs(body: str, expected: str, rewrite: Rewrite) -> None:
    assert _word(body, rewrite) == expected


def _run(text: str, properties: str = "") -> str:
    return f"<w:r>{properties and f'<w:rPr>{properties}</w:rPr>'}{T}{text}</w:t></w:r>"


def _field(instruction: str, result: str) -> str:
    mark = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'.format
    head = f"{mark('begin')}<w:r><w:instrText>{instruction}</w:instrText></w:r>{mark('separate')}"
    return head + _run(result) + mark("end")


PARAGRAPHS = {
    "a number": _run("12.5"),
    "code stays": f'<w:pPr><w:pStyle w:val="SourceCode"/></w:pPr>{_run("print")}',
    "words of code stay": _run("«run »") + _run("ls", '<w:rStyle w:val="VerbatimChar"/>') + _run("« now»"),
    "deleted text stays": f"<w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:ins>{_run('«new»')}</w:ins>",
    "a computed field stays as one": f"{_run('«page »')}{_field('DATE', 'may')}{_run('« end»')}",
    "a link's words are translated": _run("«see »") + _field(' HYPERLINK "x"', "«here»"),
    "a simple field may be a link": f'<w:fldSimple w:instr=" HYPERLINK x">{_run("«here»")}</w:fldSimple>'
    f'<w:fldSimple w:instr="DATE">{_run("May")}</w:fldSimple>',
    "a text box inside a paragraph": f"{_run('«out»')}<w:r><w:pict><w:txbxContent><w:p>{_run('«in»')}</w:p>"
    "</w:txbxContent></w:pict></w:r>",
    "a box to check is an object": f"<w:sdt><w:sdtPr><w14:checkbox/></w:sdtPr><w:sdtContent>{_run('☐')}"
    f"</w:sdtContent></w:sdt>{_run('« tea»')}",
    "an alternative text": '<w:r><w:drawing><docPr id="1" name="x" descr="«a &quot;cat&quot;»"/></w:drawing></w:r>',
}


@pytest.mark.parametrize("case", PARAGRAPHS)
def test_paragraphs(case: str, rewrite: Rewrite) -> None:
    source, expected = sides(f"<w:p>{PARAGRAPHS[case]}</w:p>")
    assert _word(source, rewrite) == expected.replace("&QUOT;", "&quot;")


def test_styles_and_fonts_of_code_stay(rewrite: Rewrite) -> None:
    """A style is one of code by its font or by the style that it varies; a film's script in such a font is no code."""
    mono = '<w:rFonts w:ascii="Courier New"/>'
    styles = (
        f'<w:style w:styleId="Listing"><w:rPr>{mono}</w:rPr></w:style><w:style w:styleId="a">'
        '<w:basedOn w:val="Listing"/></w:style><w:style w:styleId="b"><w:basedOn w:val="Normal"/></w:style>'
    )
    body = "".join(f'<w:p><w:pPr><w:pStyle w:val="{name}"/></w:pPr><w:r><w:t>{name}</w:t></w:r></w:p>' for name in "ab")
    run = f"<w:p><w:r><w:rPr>{mono}</w:rPr><w:t>c</w:t></w:r></w:p>"
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    for more, kept in ((run, {"a", "c"}), (run * 9, {"a"})):
        parts = {
            "word/document.xml": WORD.format(body + more),
            "word/styles.xml": f"<w:styles {space}>{styles}</w:styles>",
        }
        written = _part(rewrite("a.docx", _archive(parts)), "word/document.xml")
        assert {each for each in regex.findall(r"<w:t[^>]*>(.)", written) if each.islower()} == kept


SHEET = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
ODF = "urn:oasis:names:tc:opendocument:xmlns:"
DC = 'xmlns:dc="http://purl.org/dc/elements/1.1/"'
PARTS: dict[str, dict[str, str]] = {
    "any prefix, or none.docx": {
        "word/document.xml": '<document xmlns="http://purl.oclc.org/ooxml/wordprocessingml/main"><p><r><t>«word»</t></r></p>'
        '<x:p xmlns:x="other"><x:t>other</x:t></x:p></document>'
    },
    "styles of code.odt": {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "content.xml": f'<o:d xmlns:o="{ODF}office:1.0" xmlns:style="{ODF}style:1.0" xmlns:text="{ODF}text:1.0">'
        '<style:style style:name="P1" style:parent-style-name="Preformatted_20_Text"/><style:style style:name="T1">'
        '<style:text-properties style:font-name="Liberation Mono"/></style:style><o:body><text:p text:style-name="P1">a'
        '</text:p><text:p>«b» <text:span text:style-name="T1">c</text:span></text:p></o:body></o:d>',
    },
    "headers.xlsx": {
        "xl/worksheets/sheet1.xml": f'<worksheet {SHEET}><oddHeader>&amp;L&amp;"Arial,Bold"«page» &amp;P «a» &lt; «b»'
        "&amp;R&amp;D</oddHeader></worksheet>"
    },
    # A header cell that differs from the table's name of its column makes spreadsheet programs repair the file.
    "a column that a table names, and a code.xlsx": {
        "xl/sharedStrings.xml": f"<sst {SHEET}><si><t>Price</t></si><si><t>«A price»</t></si><si><t>id</t></si></sst>",
        "xl/tables/table1.xml": f'<table {SHEET}><tableColumn id="1" name="Price"/></table>',
    },
    "cells that formulas compare with.xlsx": {
        "xl/sharedStrings.xml": f"<sst {SHEET}><si><t>Open</t></si><si><t>closed</t></si><si><t>red chair</t></si>"
        "<si><t>big</t></si><si><t>old</t></si><si><t>«house»</t></si></sst>",
        "xl/worksheets/sheet1.xml": f'<worksheet {SHEET}><c><f>COUNTIF(A:A,"Open")+SUMIF(B:B,"&lt;&gt;Red chair",C)</f>'
        '</c><filter val="old"/><dataValidation prompt="«choose»" ><formula1>"open,Closed"</formula1></dataValidation>'
        '<cfRule text="big"><formula>A1</formula></cfRule></worksheet>',
    },
    "comments and titles.xlsx": {
        "xl/threadedComments/threadedComment1.xml": "<Comments "
        'xmlns="http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments"><text>«a»</text></Comments>',
        "docProps/core.xml": f"<core {DC}><dc:title>«a»</dc:title></core>",
        # openpyxl keeps comments in a directory of their own.
        "xl/comments/comment1.xml": f"<comments {SHEET}><comment><text><t>«why»</t></text></comment></comments>",
    },
    "elements of xhtml that close at once.epub": {
        "a.xhtml": '<html><head><script src="a.js"/><title/></head><body><p>«word»</p></body></html>'
    },
    "pages that a package names.epub": {
        "o/p.opf": f'<package xmlns="http://www.idpf.org/2007/opf" {DC}><dc:language>en</dc:language>'
        '<item href="a%20b.xml" media-type="application/xhtml+xml"/></package>',
        "o/a b.xml": "<p>«one»</p>",
        "o/c.xml": "<p>two</p>",
    },
    "a table of contents that names its document type.epub": {
        "toc.ncx": '<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://www.daisy.org/z3986/2005/ncx-2005-1.dtd">\n'
        '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><docTitle><text>«a book»</text></docTitle></ncx>'
    },
}
_MAIN = {"xlsx": "xl/workbook.xml", "epub": "META-INF/container.xml"}


@pytest.mark.parametrize("case", PARTS)
def test_parts(case: str, rewrite: Rewrite) -> None:
    main = _MAIN.get(case.rpartition(".")[2])
    parts = {main: "<a/>", **PARTS[case]} if main else PARTS[case]
    written = _parts(rewrite(case, _archive({name: sides(part)[0] for name, part in parts.items()})))
    for name, part in parts.items():
        _, expected = sides(part.replace("<t>«", '<t xml:space="preserve">«').replace(">en<", ">fr<"))
        assert written[name].decode() == expected


def test_links_and_charts_of_slides(rewrite: Rewrite) -> None:
    a, c = "http://schemas.openxmlformats.org/drawingml/2006/", "main chart".split()
    slide = (
        f'<a:p xmlns:a="{a}{c[0]}"><a:r><a:t>go </a:t></a:r><a:r><a:rPr><a:hlinkClick id="1"/></a:rPr>'
        "<a:t>here</a:t></a:r><a:r><a:t> to see it</a:t></a:r></a:p>"
    )
    chart = f'<c:strCache xmlns:c="{a}{c[1]}"><c:pt><c:v>red houses</c:v></c:pt><c:pt><c:v>1</c:v></c:pt></c:strCache>'
    parts = {"ppt/presentation.xml": "<a/>", "ppt/slides/slide1.xml": slide, "ppt/charts/chart1.xml": chart}
    noting = Noting(lambda html: html.upper() if "<" not in html else '<a id="2">ici</a> va')
    written = _parts(rewrite("a.pptx", _archive(parts), noting))
    assert noting.seen == ['go <a id="2">here</a> to see it', "red houses"]
    assert b'<a:hlinkClick id="1"/></a:rPr><a:t>ici</a:t>' in written["ppt/slides/slide1.xml"]
    assert b"RED HOUSES" in written["ppt/charts/chart1.xml"]


def test_lines_of_a_cell_stay_in_its_text(rewrite: Rewrite) -> None:
    name = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    rich = "<si><r><t>a\n</t></r><r><rPr><b/></rPr><t>b</t></r></si></sst>"
    shared = f'<sst xmlns="{name}"><si><t>\none\ntwo\n</t></si>{rich}'
    sheet = _archive({"xl/workbook.xml": "<workbook/>", "xl/sharedStrings.xml": shared})
    noting = Noting(lambda html: html.replace("one", "un"))
    written = _part(rewrite("a.xlsx", sheet, noting), "xl/sharedStrings.xml")
    assert "one<br" in noting.seen[0]
    assert '<si><t xml:space="preserve">\nun\ntwo\n</t></si>' in written
    assert written.endswith(rich)
    loud = _part(rewrite("a.xlsx", sheet), "xl/sharedStrings.xml")
    assert regex.findall(r"<t[^>]*>([^<]*)", loud) == ["\nONE\nTWO\n", "A\n", "B"]


def test_computed_cells_stay(rewrite: Rewrite) -> None:
    written = _part(rewrite("sheet.ods", (FILES / "sheet.ods").read_bytes()), "content.xml")
    assert regex.search('office:string-value="([^"]*)"[^>]*><text:p>\\1<', written)
    assert "THE PRICE OF THE CAR" in written


def test_the_description_of_a_book_may_be_html(rewrite: Rewrite) -> None:
    package = '<package xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:description>{}</dc:description></package>'
    description = "&lt;p&gt;a &lt;b&gt;short&lt;/b&gt; book &amp;amp; more&lt;/p&gt;"
    book = _archive({"META-INF/container.xml": "<a/>", "content.opf": package.format(description)})
    noting = Noting()
    assert _part(rewrite("a.epub", book, noting), "content.opf") == package.format(description)
    assert "&lt;" not in noting.seen[0]
    assert _part(rewrite("a.epub", book), "content.opf") == package.format(
        "&lt;p&gt;A &lt;b&gt;SHORT&lt;/b&gt; BOOK &amp;amp; MORE&lt;/p&gt;"
    )
    plain = _archive({"META-INF/container.xml": "<a/>", "content.opf": package.format("salt &amp; tea")})
    assert _part(rewrite("a.epub", plain), "content.opf") == package.format("SALT &amp; TEA")
