"""HTML and XHTML to pieces. The splitter of HTML texts chooses the text to translate; this module only cuts blocks."""

from collections.abc import Iterator
from typing import Final

import regex

from service.documents.page_blocks import block_pieces, texts_of
from service.documents.paragraph import Piece, ReadOptions
from service.text.html import split_blocks
from service.text.markup.tokenizer import Token, tokenize

# Elements that XHTML may close at once; in HTML they last until their end tag.
_EMPTY: Final = regex.compile(
    r"""<(?:script|style|textarea|title|iframe|pre|code|kbd|samp|var|svg|math|object|template|noembed|noframes|xmp)"""
    r"""(?:\s(?:[^<>"']++|"[^"]*+"|'[^']*+')*+)?(?<=/)>"""
)
_DESCRIPTIONS: Final = regex.compile(
    r"description|(?:og|twitter):(?:title|description|site_name|image:alt)|apple-mobile-web-app-title", regex.I
)
"""The names of `meta` elements with text."""


def split_page(html: str, options: ReadOptions) -> Iterator[Piece]:
    """Split a page into its blocks. Its language becomes that of the translation."""
    for raw, characters in split_blocks(html):
        tag = next(tokenize(raw)) if raw.startswith(("<html", "<HTML", "<meta", "<META")) else None
        if tag is not None and tag.name == "html":
            yield _with_language(tag, options.target)
        elif tag is not None and tag.name == "meta" and _is_description(tag):
            yield from texts_of(tag, {"content"})
        elif characters:
            yield from block_pieces(raw, characters)
        else:
            yield raw


def _with_language(tag: Token, language: str) -> str:
    """Return a tag with another language."""
    raw = tag.raw
    for name, start, end in reversed([*tag.attributes()]):
        if name in ("lang", "xml:lang") and start < end and language:
            raw = raw[:start] + language + raw[end:]
    return raw


def _is_description(tag: Token) -> bool:
    values = {name: tag.raw[start:end] for name, start, end in tag.attributes()}
    return _DESCRIPTIONS.fullmatch(values.get("name") or values.get("property") or "") is not None


def split_xhtml(html: str, options: ReadOptions) -> Iterator[Piece]:
    """Split a page of an e-book."""
    done = 0
    for found in _EMPTY.finditer(html):
        yield from split_page(html[done : found.start()], options)
        yield found[0]
        done = found.end()
    yield from split_page(html[done:], options)
