"""HTML to tokens without loss: the tokens joined are the text, however broken it is.

Parsers repair their input and forget its spelling, and Python's takes quadratic time for some broken tags. This module
knows only where tags begin and end, by the rules of the HTML standard's tokeniser (WHATWG, section 13.2.5).
"""

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, NamedTuple

# A quote counts only after an equals sign. The quantifiers are possessive, so that a failed match is not retried.
_ATTRIBUTES: Final = r"""(?:[\s/]|[^\s/>=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"'][^\s>]*+|(?=>)))?|=)*+"""
_TAG: Final = re.compile(rf"<(/?)([a-zA-Z][^\s/>]*+){_ATTRIBUTES}>")
_ATTRIBUTE: Final = re.compile(r"""([^\s/>=]++)(?:\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s>"'][^\s>]*+))?""")
# Elements with raw content up to their end tag.
_RAW: Final = frozenset("script style textarea xmp iframe noembed noframes".split())

VOID_ELEMENTS: Final = frozenset("area base br col embed hr img input link meta param source track wbr".split())

_MARKUP_PER_TEXT: Final = 10
"""Characters of HTML that are read for one character of text."""


class TokenKind(Enum):
    TEXT = auto()
    OPEN = auto()
    CLOSE = auto()
    OTHER = auto()
    """Comments, declarations, processing instructions, and the content of raw elements such as scripts."""


class Token(NamedTuple):
    kind: TokenKind
    raw: str
    name: str = ""
    """The name of a tag; names of HTML are in lower case."""
    is_empty: bool = False
    """True for an opening tag that has no closing tag and no content."""

    def attributes(self) -> Iterator[tuple[str, int, int]]:
        """Yield each attribute's name, and the span of its value in `raw`, without quotes."""
        for found in _ATTRIBUTE.finditer(self.raw, len(self.name) + 1, len(self.raw) - 1):
            if found[2] is None:
                yield found[1].lower(), found.end(), found.end()
            else:
                quote = int(found[2][:1] in "\"'")
                yield found[1].lower(), found.start(2) + quote, found.end(2) - quote


def tokenize(html: str) -> Iterator[Token]:
    """Yield the tokens of HTML lazily; whatever is invalid as a tag is text."""
    return _tokens(html, is_html=True)


def tokenize_xml(xml: str) -> Iterator[Token]:
    """Yield the tokens of XML: names keep their case and have no meaning."""
    return _tokens(xml, is_html=False)


def _tokens(html: str, *, is_html: bool) -> Iterator[Token]:
    position = 0
    while position < len(html):
        start, token = position - 1, None
        while token is None and start < len(html):
            start = html.find("<", start + 1)
            start = len(html) if start < 0 else start
            token = _markup_at(html, start, is_html=is_html)
        if start > position:
            yield Token(TokenKind.TEXT, html[position:start])
        if token is None:
            return
        yield token
        position = start + len(token.raw)
        if is_html and token.kind is TokenKind.OPEN and token.name in _RAW:
            end = re.compile(f"</{token.name}(?=[\\s/>])", re.IGNORECASE).search(html, position)
            content = html[position : end.start() if end else len(html)]
            if content:
                yield Token(TokenKind.OTHER, content)
            position += len(content)


def text_sample(html: str, characters: int) -> str:
    """Return about the first `characters` of the text between tags."""
    beginning = html[: _MARKUP_PER_TEXT * characters]
    return " ".join(token.raw for token in tokenize(beginning) if token.kind is TokenKind.TEXT)[:characters]


def _markup_at(html: str, start: int, *, is_html: bool) -> Token | None:
    """Return the tag, comment or declaration that begins at `start`; None if it is text."""
    tag = _TAG.match(html, start)
    if tag:
        name = tag[2].lower() if is_html else tag[2]
        is_empty = not tag[1] and ((is_html and name in VOID_ELEMENTS) or tag[0].endswith("/>"))
        return Token(TokenKind.CLOSE if tag[1] else TokenKind.OPEN, tag[0], name, is_empty)
    following = html[start + 1 : start + 3].removeprefix("/")[:1]
    if following.isascii() and following.isalpha():
        # By the standard, an unclosed tag extends to the end of the text; so nothing is read twice.
        return Token(TokenKind.OTHER, html[start:])
    if html[start + 1 : start + 2] not in ("!", "?", "/"):
        return None
    for opening, closing in (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<", ">")):
        if html.startswith(opening, start):
            end = html.find(closing, start + len(opening))
            return Token(TokenKind.OTHER, html[start : end + len(closing) if end >= 0 else len(html)])
    raise AssertionError("the last opening always matches")
