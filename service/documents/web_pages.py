"""HTML and XHTML to pieces: blocks, their texts and those of attributes, and the structure that translations must have.

The splitter of HTML texts chooses the text to translate; this module only cuts blocks.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import unescape
from typing import Final

import regex

from service.documents.paragraph import Paragraph, Piece, ReadOptions, paragraphs, render
from service.documents.passages import attribute_pieces
from service.documents.tagged import is_around_words, nested
from service.text.html import split_blocks
from service.text.markup.runs import partners_of
from service.text.markup.tokenizer import Token, TokenKind, tokenize

# Elements that XHTML may close at once; in HTML they last until their end tag.
_EMPTY: Final = regex.compile(
    r"""<(?:script|style|textarea|title|iframe|pre|code|kbd|samp|var|svg|math|object|template|noembed|noframes|xmp)"""
    r"""(?:\s(?:[^<>"']++|"[^"]*+"|'[^']*+')*+)?(?<=/)>"""
)
_DESCRIPTIONS: Final = regex.compile(
    r"description|(?:og|twitter):(?:title|description|site_name|image:alt)|apple-mobile-web-app-title", regex.I
)
"""The names of `meta` elements with text."""
_TEXTS: Final = frozenset({"title", "alt", "aria-label"})
"""Attributes of inline elements that a reader sees."""
_COPIED: Final = frozenset("code kbd samp var svg math object sub sup".split())
"""Inline elements without words of a language, and those that a formula needs."""
_DROP_CAP: Final = regex.compile(r"(?P<before>\s*+)(?P<opening><span(?:\s[^<>]*+)?>)(?P<letter>\p{L})</span>(?=\p{L})")
"""The large first letter of a chapter, which belongs to its word."""
_READING: Final = regex.compile(
    r"(?:<rp\b[^<>]*+>[^<]*+</rp>\s*+)?<rt\b[^<>]*+>[^<]*+(?:</rt>(?:\s*+<rp\b[^<>]*+>[^<]*+</rp>)?|(?=<rt\b|</ruby>))",
    regex.I,
)
"""Ruby: the reading of the characters before it, which is not that of the translation."""
_SOFT_HYPHEN: Final = regex.compile(r"\u00ad|&shy;|&#(?:173|xAD);", regex.I)
_IDENTITY: Final = regex.compile(r"""\sid\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]++)""", regex.I)


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


def block_pieces(raw: str, characters: int) -> list[Piece]:
    """Make a paragraph of a block; the texts in its inline tags' attributes are paragraphs in it."""
    if "<" not in raw or next(tokenize(raw)).raw == raw:  # the texts of a block's tag are read with it
        return [Paragraph([raw], _SOFT_HYPHEN.sub("", raw), characters, str)]
    source: list[Piece] = []
    tags: dict[str, Sequence[Piece]] = {}
    for token in tokenize(raw):
        pieces = texts_of(token, _TEXTS) if token.kind is TokenKind.OPEN else [token.raw]
        source += pieces
        if any(paragraphs(pieces)):
            tags[token.raw] = pieces

    readings = _READING.findall(raw)
    for number, reading in enumerate(readings):
        raw = raw.replace(reading, f"<x{number}/>", 1)
        tags[f"<x{number}/>"] = [reading]
    raw = _SOFT_HYPHEN.sub("", raw)
    drop_cap = _DROP_CAP.match(raw)
    markup = drop_cap["before"] + drop_cap["letter"] + raw[drop_cap.end() :] if drop_cap else raw

    def write(translation: str) -> str:
        text = "".join(render(tags.get(token.raw, [token.raw])) for token in tokenize(translation))
        if drop_cap is None:
            return text
        place = len(drop_cap["before"])
        return f"{text[:place]}{drop_cap['opening']}{text[place : place + 1]}</span>{text[place + 1 :]}"

    is_changed = bool(tags) or drop_cap is not None
    return [Block(source, markup, characters, write if is_changed else str)]


def texts_of(tag: Token, names: Iterable[str]) -> list[Piece]:
    """Return a tag whose attributes of the given names are paragraphs."""
    quoted = ((start, end) for name, start, end in tag.attributes() if name in names and tag.raw[start - 1] in "'\"")
    return attribute_pieces(tag.raw, quoted, unescape)


class Block(Paragraph):
    """A block with inline elements: each stays, and they stay nested."""

    def fit(self, translation: str) -> str | None:
        """Return the translation with its elements nested; None if one is missing, or a link is in another.

        An element that crosses the end of another is closed with it, and opened again behind it.
        """
        wanted = _tags(self.markup)
        is_nested = _is_nested(self.markup)  # elements may begin in one block and end in another
        is_same = _tags(translation) == wanted
        if is_same and (not is_nested or _is_nested(translation)):
            return translation
        if not is_nested:
            return None
        repaired = "".join(token.raw for token in nested(tokenize(translation), _IDENTITY))
        found = _tags(repaired)
        opened = {raw: count for raw, count in wanted.items() if not raw.startswith("</")}
        is_whole = all(
            found[raw] >= count if is_around_words(next(tokenize(raw))) else found[raw] == count
            for raw, count in opened.items()
        )
        return repaired if is_whole and _is_nested(repaired) else None

    def plain(self) -> str:
        """Return the block without the elements that contain words."""
        tokens = list(tokenize(self.markup))
        pairs = partners_of(tokens)
        return "".join(token.raw for number, token in enumerate(tokens) if number not in pairs or token.name in _COPIED)

    def complete(self, translation: str) -> str:
        """Return a translation with exactly the tags of `plain`; those that are missing stand at the end."""
        missing = _tags(self.plain())
        written = []
        for token in tokenize(translation):
            if token.kind in (TokenKind.OPEN, TokenKind.CLOSE):
                if not missing[token.raw]:
                    continue
                missing[token.raw] -= 1
            written.append(token.raw)
        return "".join([*written, *missing.elements()])


def _tags(raw: str) -> Counter[str]:
    return Counter(token.raw for token in tokenize(raw) if token.kind in (TokenKind.OPEN, TokenKind.CLOSE))


def _is_nested(raw: str) -> bool:
    """Return True if each end tag ends the innermost element, and no link is in another."""
    opened: list[str] = []
    for token in tokenize(raw):
        if is_around_words(token):
            if token.name == "a" and "a" in opened:
                return False
            opened.append(token.name)
        elif token.kind is TokenKind.CLOSE and (not opened or opened.pop() != token.name):
            return False
    return not opened
