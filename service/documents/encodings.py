"""The encoding of a text: by its byte order mark, by its declaration, UTF-8, or the older one of its format."""

import codecs
import json
from dataclasses import dataclass
from typing import Final

import regex

from service.errors import InvalidRequest

_MARKS: Final = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# The names that Python gives to the encodings of the Web and of older programs; it has other codecs, too.
_KNOWN: Final = regex.compile(
    r"ascii|utf-(?:8(?:-sig)?|16(?:-[lb]e)?|32(?:-[lb]e)?)|iso8859-[0-9]+|latin-?1|cp(?:125[0-8]|437|8[0-9]{2}|932|949|950)"
    r"|koi8-[rut]|mac-[a-z]+|gb2312|gbk|gb18030|big5(?:hkscs)?|shift_jis|euc_(?:jp|kr)|iso2022_(?:jp|kr)|tis-620"
)
_NAME: Final = rb"([A-Za-z][A-Za-z0-9._:-]{0,39})"
_XML_DECLARATION: Final = rb"""\A<\?xml[^>]*?\sencoding\s*=\s*["']""" + _NAME
_LARGER: Final = {
    "ascii": "windows-1252",
    "iso8859-1": "windows-1252",
    "iso8859-9": "windows-1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}
"""The encodings that browsers read where a page declares a smaller one (WHATWG, Encoding, section 4.2)."""
_CONTROLS: Final = regex.compile("[\x80-\x9f]")
_MOST_PAIRS: Final = 0.1
"""Letters beyond ASCII that stand side by side, in a text of a western language; in others most do."""


@dataclass(frozen=True)
class Encodings:
    """The encodings that texts of a format have."""

    declaration: bytes | None = None
    """A pattern for the declaration, with a group for the name."""
    searched_bytes: int = 16_384
    """Bytes at the beginning that must contain the declaration."""
    older: str = ""
    """The encoding of texts that declare none and are not in UTF-8."""
    is_western: bool = False
    """True if the older encoding is used only for texts that look like a western language."""
    has_larger: bool = False
    """True if texts that declare an encoding may have characters of a larger one, as browsers read them."""
    lacking: str = "strict"
    """The error handler of Python that writes the characters that the encoding lacks; `strict` refuses them."""

    def decode(self, data: bytes) -> tuple[str, str]:
        """Return the text without its byte order mark, and its encoding. Raises `InvalidRequest`."""
        mark = next((encoding for mark, encoding in _MARKS.items() if data.startswith(mark)), "")
        beginning = data[: self.searched_bytes]
        declared = regex.search(self.declaration, beginning, regex.I) if self.declaration and not mark else None
        encoding = declared[1].decode().lower() if declared else mark or "utf-8"
        if declared and encoding.startswith("utf-16"):
            encoding = "utf-8"  # in UTF-16 the declaration itself would have two bytes for each letter
        text = _decoded(data, encoding)
        larger = _LARGER.get(_codec(encoding), "") if declared and self.has_larger else ""
        if larger and (text is None or _CONTROLS.search(text)) and (read := _decoded(data, larger)) is not None:
            encoding, text = larger, read
        if text is None and not (mark or declared) and self.older and (not self.is_western or _is_western(data)):
            encoding, text = self.older, _decoded(data, self.older)
        if text is None:
            problem = f"{encoding.upper()}, as it claims" if declared else "UTF-8; save it as UTF-8"
            raise InvalidRequest("file", f"it is not {problem}")
        if "\0" in text:
            raise InvalidRequest("file", "it is not text: it contains zero bytes")
        return text.removeprefix("\ufeff"), encoding

    def encode(self, text: str, encoding: str) -> bytes:
        """Return the bytes of a text, with its mark. Raises `InvalidRequest` if the encoding lacks a character."""
        mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
        try:
            return (mark + text).encode(encoding, self.lacking)
        except UnicodeEncodeError as error:
            missing = error.object[error.start]
            raise InvalidRequest(
                "file", f"the translation has {missing!r}, which {encoding.upper()} cannot write; save it as UTF-8"
            ) from None


def _codec(encoding: str) -> str:
    """Return Python's name of an encoding; "" for an unknown one."""
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        return ""
    return name if _KNOWN.fullmatch(name) else ""


def _decoded(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(codec) if (codec := _codec(encoding)) else None
    except UnicodeError:
        return None


def _is_western(data: bytes) -> bool:
    high = regex.findall(rb"[\x80-\xff]+", data)
    return sum(len(each) > 1 for each in high) <= _MOST_PAIRS * len(high)


def _java_escape(error: UnicodeError) -> tuple[str, int]:
    """Spell characters as `\\u0153`, in units of UTF-16."""
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error("javaescape", _java_escape)
TEXT: Final = Encodings()
SUBTITLES: Final = Encodings(older="windows-1252", is_western=True)
PROPERTIES: Final = Encodings(older="iso8859-1", lacking="javaescape")
PO: Final = Encodings(rb"charset=\s*(?!CHARSET\b)" + _NAME)
XML: Final = Encodings(_XML_DECLARATION, lacking="xmlcharrefreplace")
HTML: Final = Encodings(  # as browsers read it
    rb"(?|" + _XML_DECLARATION + rb"""|<meta[^>]{0,200}?charset\s*=\s*["']?""" + _NAME + rb")",
    searched_bytes=1024,
    older="windows-1252",
    has_larger=True,
    lacking="xmlcharrefreplace",
)
