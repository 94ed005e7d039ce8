"""HTML to tokens, byte for byte: joined, they give the text back, however broken it is.

Parsers mend what they read, and forget how it was spelled; Python's own takes quadratic time on some broken tags. So
this knows only where tags begin and end, by the rules of the HTML standard's tokeniser (WHATWG, section 13.2.5).
"""

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, NamedTuple

# A quote counts only behind an equals sign. Possessive: what does not match is not tried again otherwise.
_ATTRIBUTES: Final = r"""(?:[\s/]|[^\s/>=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"'][^\s>]*+|(?=>)))?|=)*+"""
_TAG: Final = re.compile(rf"<(/?)([a-zA-Z][^\s/>]*+){_ATTRIBUTES}>")
_ATTRIBUTE: Final = re.compile(r"""([^\s/>=]++)(?:\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s>"'][^\s>]*+))?""")
# Their content is no markup, up to their end tag.
_RAW: Final = frozenset("script style textarea xmp iframe noembed noframes".split())


class Kind(Enum):
    TEXT = auto()
    OPEN = auto()
    CLOSE = auto()
    OTHER = auto()
    """Comments, declarations, processing instructions, and the content of scripts and such."""


class Token(NamedTuple):
    kind: Kind
    raw: str
    name: str = ""
    """Of a tag, in lower case."""

    def attributes(self) -> Iterator[tuple[str, int, int]]:
        """Name, and where in `raw` the value is, without its quotes."""
        for found in _ATTRIBUTE.finditer(self.raw, len(self.name) + 1, len(self.raw) - 1):
            if found[2] is None:
                yield found[1].lower(), found.end(), found.end()
            else:
                quote = int(found[2][:1] in "\"'")
                yield found[1].lower(), found.start(2) + quote, found.end(2) - quote


def tokens(html: str) -> Iterator[Token]:
    """As far as it is asked; what is no tag, however much it looks like one, is text."""
    position = 0
    while position < len(html):
        start = html.find("<", position)
        if start < 0:
            start = len(html)
        token = _markup_at(html, start)
        while token is None and start < len(html):
            start = html.find("<", start + 1)
            start = len(html) if start < 0 else start
            token = _markup_at(html, start)
        if start > position:
            yield Token(Kind.TEXT, html[position:start])
        if token is None:
            return
        yield token
        position = start + len(token.raw)
        if token.kind is Kind.OPEN and token.name in _RAW:
            end = re.compile(f"</{token.name}(?=[\\s/>])", re.IGNORECASE).search(html, position)
            content = html[position : end.start() if end else len(html)]
            if content:
                yield Token(Kind.OTHER, content)
            position += len(content)


def _markup_at(html: str, start: int) -> Token | None:
    """None where no markup begins."""
    tag = _TAG.match(html, start)
    if tag:
        return Token(Kind.CLOSE if tag[1] else Kind.OPEN, tag[0], tag[2].lower())
    following = html[start + 1 : start + 3].removeprefix("/")[:1]
    if following.isascii() and following.isalpha():
        # The standard lets what is not closed go on to the end; so nothing is looked at twice.
        return Token(Kind.OTHER, html[start:])
    if html[start + 1 : start + 2] not in ("!", "?", "/"):
        return None
    for opening, closing in (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<", ">")):
        if html.startswith(opening, start):
            end = html.find(closing, start + len(opening))
            return Token(Kind.OTHER, html[start : end + len(closing) if end >= 0 else len(html)])
    raise AssertionError("the last one always begins here")
