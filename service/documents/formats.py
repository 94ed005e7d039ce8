"""The table of formats."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

import regex

from service.documents import office
from service.documents.asciidoc import read_asciidoc
from service.documents.fluent import read_fluent
from service.documents.gettext import decode_po, read_po
from service.documents.json_files import read_arb, read_json
from service.documents.markdown import split_markdown
from service.documents.notebooks import split_notebook
from service.documents.paragraph import Piece, ReadOptions
from service.documents.passages import split_passages
from service.documents.pdf.conversion import convert_pdf
from service.documents.plain_text import read_plain_text
from service.documents.readers import ArchiveReader, Conversion, DocumentFormat, Read, Split, TextReader
from service.documents.rest import read_rest
from service.documents.string_catalogs import split_catalog
from service.documents.strings_files import decode_properties, read_properties, read_strings
from service.documents.subtitles import decode_subtitles, read_events, read_subtitles
from service.documents.tex import split_tex
from service.documents.text_files import decode_text, read_table
from service.documents.web_pages import decode_html, split_page
from service.documents.xliff import split_xliff
from service.documents.xml_strings import read_android, read_resx, read_stringsdict, read_tmx, read_ts, read_ttml
from service.documents.xml_text import decode as decode_xml
from service.documents.yaml_files import read_yaml
from service.errors import InvalidRequest, UnsupportedFormat

_LONGEST_NAME: Final = 32

_ODF_TYPE: Final = "application/vnd.oasis.opendocument"
_OOXML_TYPE: Final = "application/vnd.openxmlformats-officedocument"
_MACRO_TYPE: Final = "application/vnd.ms-{}.macroEnabled.12"


def _archives(names: str, media_types: Iterable[str], main: str, parts: office.Parts) -> Iterator[DocumentFormat]:
    """Return formats that have the same parts, such as those with and without macros, which are copied."""
    reader = ArchiveReader(main=regex.compile(main), parts=parts)
    for name, media_type in zip(names.split(), media_types, strict=True):
        yield DocumentFormat(name=name, media_type=media_type, reader=reader)


Decode = Callable[[bytes], tuple[str, str]]

_ARCHIVES: Final = (
    *_archives(
        "docx docm",
        (f"{_OOXML_TYPE}.wordprocessingml.document", _MACRO_TYPE.format("word.document")),
        r"word/document[0-9]*\.xml",
        office.DOCX_PARTS,
    ),
    *_archives(
        "pptx pptm",
        (f"{_OOXML_TYPE}.presentationml.presentation", _MACRO_TYPE.format("powerpoint.presentation")),
        r"ppt/presentation[0-9]*\.xml",
        office.PPTX_PARTS,
    ),
    *_archives(
        "xlsx xlsm",
        (f"{_OOXML_TYPE}.spreadsheetml.sheet", _MACRO_TYPE.format("excel.sheet")),
        r"xl/workbook[0-9]*\.xml",
        office.XLSX_PARTS,
    ),
    *_archives(
        "odt odp ods",
        (f"{_ODF_TYPE}.{kind}" for kind in ("text", "presentation", "spreadsheet")),
        r"content\.xml",
        office.OPEN_DOCUMENT_PARTS,
    ),
    DocumentFormat(
        name="epub",
        media_type="application/epub+zip",
        reader=ArchiveReader(
            main=regex.compile(r"META-INF/container\.xml"),
            parts=office.EPUB_PARTS,
            pages=regex.compile(r".*\.(?:xhtml|html|htm)", regex.I),
        ),
    ),
    DocumentFormat(
        name="pdf", media_type="application/pdf", reader=Conversion(convert=convert_pdf, outputs=("docx", "md"))
    ),
)


def _cut(text: str, options: ReadOptions, read: Read) -> Iterator[Piece]:
    return split_passages(text, read(text, options))


def _texts(names: str, media_type: str, read: Read, decode: Decode = decode_text) -> Iterator[DocumentFormat]:
    """Return formats whose reader finds passages. One in XML can write any character."""
    return _pieces(names, media_type, partial(_cut, read=read), decode)


def _pieces(names: str, media_type: str, split: Split, decode: Decode = decode_text) -> Iterator[DocumentFormat]:
    reader = TextReader(decode=decode, split=split, has_references=decode in (decode_xml, decode_html))
    for name in names.split():
        yield DocumentFormat(name=name, media_type=media_type, reader=reader)


_ALL: Final = (
    *_ARCHIVES,
    *_pieces("html htm xhtml", "text/html", split_page, decode_html),
    *_texts("txt", "text/plain", read_plain_text),
    *_pieces("md markdown mdx", "text/markdown", split_markdown),
    *_texts("rst", "text/x-rst", read_rest),
    *_pieces("tex", "text/x-tex", split_tex),
    *_texts("adoc asciidoc", "text/asciidoc", read_asciidoc),
    *_texts("srt", "application/x-subrip", read_subtitles, decode_subtitles),
    *_texts("vtt", "text/vtt", read_subtitles, decode_subtitles),
    *_texts("sbv", "text/x-subviewer", read_subtitles, decode_subtitles),
    *_texts("ass ssa", "text/x-ssa", read_events, decode_subtitles),
    *_texts("ttml", "application/ttml+xml", read_ttml, decode_xml),
    *_texts("po pot", "text/x-gettext-translation", read_po, decode_po),
    *_pieces("xlf xliff", "application/xliff+xml", split_xliff, decode_xml),
    *_texts("tmx", "application/x-tmx+xml", read_tmx, decode_xml),
    *_texts("ts", "application/x-linguist", read_ts, decode_xml),
    *_texts("xml", "application/xml", read_android, decode_xml),
    *_texts("resx", "application/xml", read_resx, decode_xml),
    *_texts("stringsdict", "application/xml", read_stringsdict, decode_xml),
    *_texts("strings", "text/x-apple-strings", read_strings),
    *_texts("properties", "text/x-java-properties", read_properties, decode_properties),
    *_texts("ftl", "text/x-fluent", read_fluent),
    *_texts("yaml yml", "application/yaml", read_yaml),
    *_texts("json", "application/json", read_json),
    *_texts("arb", "application/json", read_arb),
    *_pieces("xcstrings", "application/json", split_catalog),
    *_pieces("ipynb", "application/x-ipynb+json", split_notebook),
    *_texts("csv", "text/csv", read_table),
    *_texts("tsv", "text/tab-separated-values", read_table),
)
FORMATS: Final[Mapping[str, DocumentFormat]] = {each.name: each for each in _ALL}
"""All formats by the endings of their files' names."""

_REFUSED: Final = {
    "doc": "the old binary format is not read; save it as docx",
    "xls": "the old binary format is not read; save it as xlsx",
    "ppt": "the old binary format is not read; save it as pptx",
}


def format_of(name: str) -> DocumentFormat:
    """Find the format of a file by its name. Raises `UnsupportedFormat`."""
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    if ending in _REFUSED:
        raise UnsupportedFormat("file", _REFUSED[ending])
    if ending not in FORMATS:
        problem = f"the file extension .{ending[:_LONGEST_NAME]} is not supported" if ending else "no file extension"
        raise UnsupportedFormat("file", f"{problem}; available: {', '.join(FORMATS)}")
    return FORMATS[ending]


def check_beginning(beginning: bytes, found: DocumentFormat) -> None:
    """Raise `InvalidRequest` if a file begins like one of another format."""
    if not beginning:
        raise InvalidRequest("file", "it is empty")
    if beginning.startswith(b"%PDF") != (found.name == "pdf"):
        raise UnsupportedFormat("file", f"its content is not {found.name}, as its name says")
    if beginning.startswith(b"\xd0\xcf\x11\xe0"):
        raise InvalidRequest("file", "it is encrypted or in an old binary format; save it anew, without a password")
    is_archive = beginning.startswith(b"PK\x03\x04")
    if is_archive != isinstance(found.reader, ArchiveReader):
        raise InvalidRequest("file", f"its content is not {found.name}, as its name says")
