"""The table of formats. It imports no parser: the modules of a format are imported when a document of it is read."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final

from service.documents.readers import Conversion, TextReader
from service.errors import InvalidRequest, UnsupportedFormat

if TYPE_CHECKING:
    from service.documents.office import ArchiveReader

_LONGEST_NAME: Final = 32

_ODF_TYPE: Final = "application/vnd.oasis.opendocument"
_OOXML_TYPE: Final = "application/vnd.openxmlformats-officedocument"
_MACRO_TYPE: Final = "application/vnd.ms-{}.macroEnabled.12"


@dataclass(frozen=True, kw_only=True)
class DocumentFormat:
    """A format of documents."""

    name: str
    """The ending of its files' names."""
    media_type: str
    load: Callable[[], "TextReader | ArchiveReader | Conversion"]
    is_archive: bool = False
    outputs: tuple[str, ...] = ()
    """Formats of the result, if this one cannot be written; the caller may choose, and the first is the default."""

    @cached_property
    def reader(self) -> "TextReader | ArchiveReader | Conversion":
        return self.load()

    @property
    def has_columns(self) -> bool:
        """True for a table of values; the caller may choose some of its columns."""
        return self.name in ("csv", "tsv")


def _archives(
    names: str, media_types: Iterable[str], main: str, parts: str, pages: str = ""
) -> Iterator[DocumentFormat]:
    """Return formats that have the same parts, such as those with and without macros, which are copied.

    `main` and `pages` are patterns, and `parts` is a constant of `office`.
    """

    def load() -> "ArchiveReader":
        from service.documents.office import ArchiveReader

        return ArchiveReader(main=main, parts=_named(f"office:{parts}"), pages=pages)

    for name, media_type in zip(names.split(), media_types, strict=True):
        yield DocumentFormat(name=name, media_type=media_type, load=load, is_archive=True)


def _named(name: str) -> Any:
    """Import what `module:name` names in this package."""
    return resolve_name(f"{__package__}.{name}")


_ARCHIVES: Final = (
    *_archives(
        "docx docm",
        (f"{_OOXML_TYPE}.wordprocessingml.document", _MACRO_TYPE.format("word.document")),
        r"word/document[0-9]*\.xml",
        "DOCX_PARTS",
    ),
    *_archives(
        "pptx pptm",
        (f"{_OOXML_TYPE}.presentationml.presentation", _MACRO_TYPE.format("powerpoint.presentation")),
        r"ppt/presentation[0-9]*\.xml",
        "PPTX_PARTS",
    ),
    *_archives(
        "xlsx xlsm",
        (f"{_OOXML_TYPE}.spreadsheetml.sheet", _MACRO_TYPE.format("excel.sheet")),
        r"xl/workbook[0-9]*\.xml",
        "XLSX_PARTS",
    ),
    *_archives(
        "odt odp ods",
        (f"{_ODF_TYPE}.{kind}" for kind in ("text", "presentation", "spreadsheet")),
        r"content\.xml",
        "OPEN_DOCUMENT_PARTS",
    ),
    *_archives("epub", ("application/epub+zip",), r"META-INF/container\.xml", "EPUB_PARTS", r".*\.(?i:xhtml|html|htm)"),
)
_PDF: Final = DocumentFormat(
    name="pdf",
    media_type="application/pdf",
    load=lambda: Conversion(convert=_named("pdf.conversion:convert_pdf")),
    outputs=("docx", "md"),
)
_TEXT: Final = "text_files:decode_text"


def _pieces(
    names: str, media_type: str, split: str, decode: str = _TEXT, *, finds_passages: bool = False
) -> Iterator[DocumentFormat]:
    """Return formats of text. One in XML can write any character."""

    def load() -> TextReader:
        found = _named("passages:at_passages")(_named(split)) if finds_passages else _named(split)
        has_references = decode in ("xml_text:decode", "web_pages:decode_html")
        return TextReader(decode=_named(decode), split=found, has_references=has_references)

    for name in names.split():
        yield DocumentFormat(name=name, media_type=media_type, load=load)


_texts: Final = partial(_pieces, finds_passages=True)

_ALL: Final = (
    *_ARCHIVES,
    _PDF,
    *_pieces("html htm xhtml", "text/html", "web_pages:split_page", "web_pages:decode_html"),
    *_texts("txt", "text/plain", "plain_text:read_plain_text"),
    *_pieces("md markdown mdx", "text/markdown", "markdown:split_markdown"),
    *_texts("rst", "text/x-rst", "rest:read_rest"),
    *_pieces("tex", "text/x-tex", "tex:split_tex"),
    *_texts("adoc asciidoc", "text/asciidoc", "asciidoc:read_asciidoc"),
    *_texts("srt", "application/x-subrip", "subtitles:read_subtitles", "subtitles:decode_subtitles"),
    *_texts("vtt", "text/vtt", "subtitles:read_subtitles", "subtitles:decode_subtitles"),
    *_texts("sbv", "text/x-subviewer", "subtitles:read_subtitles", "subtitles:decode_subtitles"),
    *_texts("ass ssa", "text/x-ssa", "subtitles:read_events", "subtitles:decode_subtitles"),
    *_texts("ttml", "application/ttml+xml", "xml_strings:read_ttml", "xml_text:decode"),
    *_texts("po pot", "text/x-gettext-translation", "gettext:read_po", "gettext:decode_po"),
    *_pieces("xlf xliff", "application/xliff+xml", "xliff:split_xliff", "xml_text:decode"),
    *_texts("tmx", "application/x-tmx+xml", "xml_strings:read_tmx", "xml_text:decode"),
    *_texts("ts", "application/x-linguist", "xml_strings:read_ts", "xml_text:decode"),
    *_texts("xml", "application/xml", "xml_strings:read_android", "xml_text:decode"),
    *_texts("resx", "application/xml", "xml_strings:read_resx", "xml_text:decode"),
    *_texts("stringsdict", "application/xml", "xml_strings:read_stringsdict", "xml_text:decode"),
    *_texts("strings", "text/x-apple-strings", "strings_files:read_strings"),
    *_texts("properties", "text/x-java-properties", "strings_files:read_properties", "strings_files:decode_properties"),
    *_texts("ftl", "text/x-fluent", "fluent:read_fluent"),
    *_texts("yaml yml", "application/yaml", "yaml_files:read_yaml"),
    *_texts("json", "application/json", "json_files:read_json"),
    *_texts("arb", "application/json", "json_files:read_arb"),
    *_pieces("xcstrings", "application/json", "string_catalogs:split_catalog"),
    *_pieces("ipynb", "application/x-ipynb+json", "notebooks:split_notebook"),
    *_texts("csv", "text/csv", "text_files:read_table"),
    *_texts("tsv", "text/tab-separated-values", "text_files:read_table"),
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
