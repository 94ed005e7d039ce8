"""HTML and XHTML to pieces. The splitter of HTML texts chooses the text to translate; this module only cuts blocks."""

from collections.abc import Iterator
from typing import Final

import regex

from service.documents.paragraph import Paragraph, Piece, ReadOptions
from service.documents.xml_text import decode
from service.errors import InvalidRequest
from service.text.html import split_blocks

_CHARSET: Final = regex.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([A-Za-z][A-Za-z0-9._:-]{0,39})""", regex.I)
_CHARSET_BYTES: Final = 1024
"""Bytes at the beginning that must contain the charset, by the HTML standard."""
# Elements that XHTML may close at once; in HTML they last until their end tag.
_EMPTY: Final = regex.compile(
    r"""<(?:script|style|textarea|title|iframe|pre|code|kbd|samp|var|svg|math|object|template|noembed|noframes|xmp)"""
    r"""(?:\s(?:[^<>"']++|"[^"]*+"|'[^']*+')*+)?(?<=/)>"""
)


def decode_html(data: bytes) -> tuple[str, str]:
    """Decode by the byte order mark, the XML declaration or the `meta` element. Returns the text and the encoding."""
    declared = _CHARSET.search(data[:_CHARSET_BYTES])
    if declared is None or data.startswith((b"\xff\xfe", b"\xfe\xff", b"<?xml")):
        return decode(data)
    encoding = declared[1].decode().lower()
    try:
        return data.decode(encoding), encoding
    except (UnicodeDecodeError, LookupError):
        raise InvalidRequest("file", f"the page is not {encoding.upper()}, as it claims") from None


def split_page(html: str, _: ReadOptions) -> Iterator[Piece]:
    """Split a page into its blocks."""
    for raw, characters in split_blocks(html):
        yield Paragraph([raw], raw, characters, str) if characters else raw


def split_xhtml(html: str, options: ReadOptions) -> Iterator[Piece]:
    """Split a page of an e-book."""
    done = 0
    for found in _EMPTY.finditer(html):
        yield from split_page(html[done : found.start()], options)
        yield found[0]
        done = found.end()
    yield from split_page(html[done:], options)
