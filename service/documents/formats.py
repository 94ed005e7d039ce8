"""The table of formats. It imports no parser: the modules of a format are imported when a document of it is read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final, cast

from service.documents.encodings import HTML, PO, PROPERTIES, SUBTITLES, TEXT, XML, Encodings
from service.documents.paragraph import Piece, ReadOptions
from service.errors import InvalidRequest, UnsupportedFormat

if TYPE_CHECKING:
    from service.documents.office import ArchiveReader

_LONGEST_NAME: Final = 32

_ODF_TYPE: Final = "application/vnd.oasis.opendocument"
_OOXML_TYPE: Final = "application/vnd.openxmlformats-officedocument"


@dataclass(frozen=True)
class TextReader:
    """The rules for reading and writing a text of a document."""

    encodings: Encodings
    split: Callable[[str, ReadOptions], Iterator[Piece]]
    """Splits a text into pieces; joined, they are the text."""


Convert = Callable[[Path, Path, ReadOptions], Sequence[str]]
"""Converts a file into another one, by its name into docx or md. Returns warnings for the report."""


@dataclass(frozen=True, kw_only=True)
class DocumentFormat:
    """A format of documents."""

    name: str
    """The ending of its files' names."""
    media_type: str
    read: str
    """The `module:name` of its archive reader or function.

    `read_...` reads passages, `split_...` pieces, and `convert_...` converts a file of a format that cannot be written.
    """
    encodings: Encodings | None = None
    """Encodings of a text format; None for archives."""
    outputs: tuple[str, ...] = ()
    """Formats of the result, if this one cannot be written; the caller may choose, and the first is the default."""

    @property
    def is_archive(self) -> bool:
        return self.read.startswith("office:")

    @cached_property
    def reader(self) -> "TextReader | ArchiveReader | Convert":
        found = _named(self.read)
        if self.encodings is None:
            return cast("ArchiveReader | Convert", found)
        return TextReader(self.encodings, _named("passages:at_passages")(found) if ":read_" in self.read else found)

    @property
    def has_columns(self) -> bool:
        """True for a table of values; the caller may choose some of its columns."""
        return self.name in ("csv", "tsv")


def _named(name: str) -> Any:
    return resolve_name(f"{__package__}.{name}")


def _archive(name: str, media_type: str, reader: str) -> DocumentFormat:
    return DocumentFormat(name=name, media_type=media_type, read=f"office:{reader}")


def _texts(names: str, media_type: str, read: str, encodings: Encodings = TEXT) -> Iterator[DocumentFormat]:
    for name in names.split():
        yield DocumentFormat(name=name, media_type=media_type, read=read, encodings=encodings)


_ALL: Final = (
    # Those with macros have the same texts; the macros are copied.
    _archive("docx", f"{_OOXML_TYPE}.wordprocessingml.document", "DOCX"),
    _archive("docm", "application/vnd.ms-word.document.macroEnabled.12", "DOCX"),
    _archive("pptx", f"{_OOXML_TYPE}.presentationml.presentation", "PPTX"),
    _archive("pptm", "application/vnd.ms-powerpoint.presentation.macroEnabled.12", "PPTX"),
    _archive("xlsx", f"{_OOXML_TYPE}.spreadsheetml.sheet", "XLSX"),
    _archive("xlsm", "application/vnd.ms-excel.sheet.macroEnabled.12", "XLSX"),
    _archive("odt", f"{_ODF_TYPE}.text", "ODF"),
    _archive("odp", f"{_ODF_TYPE}.presentation", "ODF"),
    _archive("ods", f"{_ODF_TYPE}.spreadsheet", "ODF"),
    _archive("epub", "application/epub+zip", "EPUB"),
    DocumentFormat(name="pdf", media_type="application/pdf", read="pdf.conversion:convert_pdf", outputs=("docx", "md")),
    *_texts("html htm xhtml", "text/html", "web_pages:split_page", HTML),
    *_texts("txt", "text/plain", "plain_text:read_plain_text"),
    *_texts("md markdown mdx", "text/markdown", "markdown:read_markdown"),
    *_texts("rst", "text/x-rst", "rest:read_rest"),
    *_texts("tex", "text/x-tex", "tex:read_tex"),
    *_texts("adoc asciidoc", "text/asciidoc", "asciidoc:read_asciidoc"),
    *_texts("srt", "application/x-subrip", "subtitles:read_subtitles", SUBTITLES),
    *_texts("vtt", "text/vtt", "subtitles:read_subtitles", SUBTITLES),
    *_texts("sbv", "text/x-subviewer", "subtitles:read_subtitles", SUBTITLES),
    *_texts("ass ssa", "text/x-ssa", "subtitles:read_events", SUBTITLES),
    *_texts("ttml", "application/ttml+xml", "xml_strings:read_ttml", XML),
    *_texts("po pot", "text/x-gettext-translation", "gettext:read_po", PO),
    *_texts("xlf xliff", "application/xliff+xml", "xliff:read_xliff", XML),
    *_texts("tmx", "application/x-tmx+xml", "xml_strings:read_tmx", XML),
    *_texts("ts", "application/x-linguist", "xml_strings:read_ts", XML),
    *_texts("xml", "application/xml", "xml_strings:read_android", XML),
    *_texts("resx", "application/xml", "xml_strings:read_resx", XML),
    *_texts("stringsdict", "application/xml", "xml_strings:read_stringsdict", XML),
    *_texts("strings", "text/x-apple-strings", "strings_files:read_strings"),
    *_texts("properties", "text/x-java-properties", "strings_files:read_properties", PROPERTIES),
    *_texts("ftl", "text/x-fluent", "fluent:read_fluent"),
    *_texts("yaml yml", "application/yaml", "yaml_files:read_yaml"),
    *_texts("json", "application/json", "json_files:read_json"),
    *_texts("arb", "application/json", "json_files:read_arb"),
    *_texts("xcstrings", "application/json", "json_files:read_catalog"),
    *_texts("ipynb", "application/x-ipynb+json", "notebooks:read_notebook"),
    *_texts("csv", "text/csv", "tables:read_table"),
    *_texts("tsv", "text/tab-separated-values", "tables:read_table"),
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
    if is_archive != found.is_archive:
        raise InvalidRequest("file", f"its content is not {found.name}, as its name says")
