"""The table of formats: how the text of each is decoded and split into paragraphs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import regex

from service.documents import office
from service.documents.gettext import decode_po, read_po
from service.documents.markdown import split_markdown
from service.documents.paragraph import Piece, ReadOptions
from service.documents.passages import Passage, split_passages
from service.documents.pdf.conversion import convert_pdf
from service.documents.plain_text import read_plain_text
from service.documents.strings_files import read_strings
from service.documents.subtitles import decode_subtitles, read_events, read_subtitles
from service.documents.text_files import decode_text, read_json, read_table
from service.documents.web_pages import decode_html, split_page, split_xhtml
from service.documents.xliff import split_xliff
from service.documents.xml_document import split_xml
from service.documents.xml_text import decode as decode_xml
from service.documents.yaml_files import read_yaml
from service.errors import InvalidRequest, UnsupportedFormat

_LONGEST_NAME: Final = 32

Read = Callable[[str, ReadOptions], Iterable[Passage]]
"""A function that finds the texts to translate, in their order. This is all that most formats need."""
Split = Callable[[str, ReadOptions], Iterator[Piece]]
"""A function that splits a text into pieces, for formats whose paragraphs contain others; joined, they are the text."""


@dataclass(frozen=True, kw_only=True)
class TextReader:
    """The rules for reading and writing a text of a document."""

    decode: Callable[[bytes], tuple[str, str]]
    """Returns the text and its encoding."""
    split: Split
    has_references: bool = False
    """True if a character that the encoding lacks can be written as a reference."""

    def encode(self, text: str, encoding: str) -> bytes:
        """Return the bytes of a text. Raises `InvalidRequest` if the document's encoding lacks a character."""
        try:
            return text.encode(encoding, "xmlcharrefreplace" if self.has_references else "strict")
        except UnicodeEncodeError as error:
            missing = text[error.start : error.end][:1]
            raise InvalidRequest(
                "file", f"the translation has {missing!r}, which {encoding.upper()} cannot write; save it as UTF-8"
            ) from None


class Survey(NamedTuple):
    """What a first look at an archive tells about its parts."""

    named: frozenset[str] = frozenset()
    """The headings that a table names."""
    compared: frozenset[str] = frozenset()
    """Texts, in lower case, that formulas compare with."""
    pages: frozenset[str] = frozenset()
    """The names of parts in XHTML."""


@dataclass(frozen=True, kw_only=True)
class ArchiveReader:
    """The parts of an archive that hold text."""

    main: regex.Pattern[str]
    """The name of a part that every archive of the format has."""
    parts: office.Parts
    pages: regex.Pattern[str] | None = None
    """The names of parts in XHTML, besides those that a package declares."""

    def reader(self, name: str, known: Survey) -> TextReader | None:
        """Return the reader of a part; None for a part without text."""
        if name in known.pages or (self.pages is not None and self.pages.fullmatch(name)):
            return _XHTML
        for pattern, vocabulary in self.parts.items():
            if pattern.fullmatch(name):
                split = partial(split_xml, vocabulary=office.keeping(vocabulary, known.named, known.compared))
                return TextReader(decode=decode_xml, split=split, has_references=True)
        return None


_XHTML: Final = TextReader(decode=decode_html, split=split_xhtml, has_references=True)
_ODF_TYPE: Final = "application/vnd.oasis.opendocument"
_OOXML_TYPE: Final = "application/vnd.openxmlformats-officedocument"
_CONTENT: Final = regex.compile(r"content\.xml")


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """A format that cannot be written: its files are converted first, and delivered in another format."""

    convert: Callable[[Path, Path, ReadOptions], Sequence[str]]
    """Converts a file into another one, whose name ends in one of `outputs`. Returns warnings for the report."""
    outputs: tuple[str, ...]
    """The formats that the caller may choose; the first is the default."""


@dataclass(frozen=True, kw_only=True)
class DocumentFormat:
    """A format of documents."""

    name: str
    """The ending of its files' names."""
    media_type: str
    reader: TextReader | ArchiveReader | Conversion

    @property
    def has_columns(self) -> bool:
        """True for a table of values; the caller may choose some of its columns."""
        return self.name in ("csv", "tsv")


def _text(name: str, media_type: str, reader: TextReader) -> DocumentFormat:
    return DocumentFormat(name=name, media_type=media_type, reader=reader)


def _split(text: str, options: ReadOptions, read: Read) -> Iterator[Piece]:
    return split_passages(text, read(text, options))


def _plain(read: Read) -> TextReader:
    return TextReader(decode=decode_text, split=partial(_split, read=read))


_HTML: Final = TextReader(decode=decode_html, split=split_page, has_references=True)
_MACRO_TYPE: Final = "application/vnd.ms-{}.macroEnabled.12"


def _office(names: str, media_types: tuple[str, str], main: str, parts: office.Parts) -> Iterator[DocumentFormat]:
    """Return the formats of an office program, without and with macros, which are copied."""
    reader = ArchiveReader(main=regex.compile(main), parts=parts)
    for name, media_type in zip(names.split(), media_types, strict=True):
        yield DocumentFormat(name=name, media_type=media_type, reader=reader)


_ALL: Final = (
    *_office(
        "docx docm",
        (f"{_OOXML_TYPE}.wordprocessingml.document", _MACRO_TYPE.format("word.document")),
        r"word/document[0-9]*\.xml",
        office.DOCX_PARTS,
    ),
    *_office(
        "pptx pptm",
        (f"{_OOXML_TYPE}.presentationml.presentation", _MACRO_TYPE.format("powerpoint.presentation")),
        r"ppt/presentation[0-9]*\.xml",
        office.PPTX_PARTS,
    ),
    *_office(
        "xlsx xlsm",
        (f"{_OOXML_TYPE}.spreadsheetml.sheet", _MACRO_TYPE.format("excel.sheet")),
        r"xl/workbook[0-9]*\.xml",
        office.XLSX_PARTS,
    ),
    *(
        DocumentFormat(
            name=name,
            media_type=f"{_ODF_TYPE}.{kind}",
            reader=ArchiveReader(main=_CONTENT, parts=office.OPEN_DOCUMENT_PARTS),
        )
        for name, kind in {"odt": "text", "odp": "presentation", "ods": "spreadsheet"}.items()
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
    _text("html", "text/html", _HTML),
    _text("htm", "text/html", _HTML),
    _text("txt", "text/plain", _plain(read_plain_text)),
    *(
        _text(name, "text/markdown", TextReader(decode=decode_text, split=split_markdown))
        for name in ("md", "markdown", "mdx")
    ),
    *(
        _text(name, media_type, TextReader(decode=decode_subtitles, split=partial(_split, read=read)))
        for name, media_type, read in (
            ("srt", "application/x-subrip", read_subtitles),
            ("vtt", "text/vtt", read_subtitles),
            ("sbv", "text/x-subviewer", read_subtitles),
            ("ass", "text/x-ass", read_events),
            ("ssa", "text/x-ssa", read_events),
        )
    ),
    *(
        _text(name, "text/x-gettext-translation", TextReader(decode=decode_po, split=partial(_split, read=read_po)))
        for name in ("po", "pot")
    ),
    *(
        _text(name, "application/xliff+xml", TextReader(decode=decode_xml, split=split_xliff, has_references=True))
        for name in ("xlf", "xliff")
    ),
    _text("yaml", "application/yaml", _plain(read_yaml)),
    _text("yml", "application/yaml", _plain(read_yaml)),
    _text("json", "application/json", _plain(read_json)),
    _text("strings", "text/x-apple-strings", _plain(read_strings)),
    _text("csv", "text/csv", _plain(read_table)),
    _text("tsv", "text/tab-separated-values", _plain(read_table)),
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
