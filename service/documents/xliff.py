"""XLIFF 1.2 and 2 to pieces: each source is translated into the target beside it if that is empty."""

from collections.abc import Iterator, Sequence
from typing import Final

from service.documents.paragraph import Paragraph, Piece, ReadOptions
from service.documents.passages import inline_paragraph
from service.documents.tagged import Close, Item, Object, Open, Words
from service.documents.xml_text import XmlKind, XmlToken, check, escape_text, tokens
from service.errors import InvalidRequest

_NAMESPACES: Final = {
    f"urn:oasis:names:tc:xliff:document:{version}": "x" for version in ("1.1", "1.2", "2.0", "2.1", "2.2")
}
_UNITS: Final = frozenset({"x:trans-unit", "x:segment"})
_HOLDERS: Final = frozenset({"x:group", "x:unit", "x:body", "x:file"})
_WRAPPERS: Final = frozenset({"x:g", "x:mrk", "x:pc"})
_UNFINISHED: Final = frozenset({"new", "initial", "needs-translation"})
_LANGUAGE: Final = {"x:file": "target-language", "x:xliff": "trgLang"}


def split_xliff(text: str, options: ReadOptions) -> Iterator[Piece]:
    """Split XLIFF into its units. Raises `InvalidRequest` if it is broken."""
    check(text)
    found = tokens(text, _NAMESPACES)
    root = next((token for token in found if token.kind in (XmlKind.OPEN, XmlKind.EMPTY)), None)
    if root is None or root.name != "x:xliff":
        raise InvalidRequest("file", "it is not XLIFF 1.2 or 2")
    return _pieces(tokens(text, _NAMESPACES), options.target, is_old=root.attributes().get("version", "")[:1] == "1")


def _pieces(found: Iterator[XmlToken], target: str, *, is_old: bool) -> Iterator[Piece]:
    translates = [True]  # `translate` is inherited
    for token in found:
        if token.kind is XmlKind.CLOSE and token.name in _HOLDERS:
            translates.pop()
        elif token.kind is XmlKind.OPEN and token.name in _HOLDERS | _UNITS:
            value = token.attributes().get("translate")
            is_translated = translates[-1] if value is None else value == "yes"
            if token.name in _UNITS:
                unit = [token, *_rest(found)]
                yield from _unit(unit) if is_translated else [each.raw for each in unit]
                continue
            translates.append(is_translated)
        name = _LANGUAGE.get(token.name)
        if token.kind is XmlKind.OPEN and name is not None and (token.name == "x:file") == is_old:
            yield _with_attribute(token, name, target)
        else:
            yield token.raw


def _with_attribute(token: XmlToken, name: str, value: str) -> str:
    """Add the target language that the standard wants beside targets, if it is missing."""
    return token.raw if name in token.attributes() else f'{token.raw[:-1]} {name}="{value}">'


def _rest(found: Iterator[XmlToken]) -> Iterator[XmlToken]:
    """Take the rest of an element, with its end tag."""
    depth = 1
    while depth:
        token = next(found)
        depth += {XmlKind.OPEN: 1, XmlKind.CLOSE: -1}.get(token.kind, 0)
        yield token


def _children(unit: Sequence[XmlToken]) -> Iterator[tuple[int, int]]:
    """Yield the first token of each child of an element, and the token after its last child."""
    depth = start = 0
    for number, token in enumerate(unit[1:-1], 1):
        if depth == 0:
            start = number
        depth += {XmlKind.OPEN: 1, XmlKind.CLOSE: -1}.get(token.kind, 0)
        if depth == 0:
            yield start, number + 1


def _unit(unit: Sequence[XmlToken]) -> Iterator[Piece]:
    children = {unit[start].name: (start, end) for start, end in _children(unit)}
    raw = [token.raw for token in unit]
    if "x:source" not in children or unit[children["x:source"][0]].kind is XmlKind.EMPTY:
        yield "".join(raw)
        return
    first, last = children["x:source"]
    start, end = children.get("x:target", (0, 0))
    if not end:
        start = end = children.get("x:seg-source", (first, last))[1]
    elif _is_translated(unit[0], unit[start:end]):
        yield "".join(raw)
        return
    space = raw[first - 1] if raw[first - 1].isspace() else ""
    name = unit[first].spelled.removesuffix("source") + "target"
    old = "".join(raw[start:end])
    tag = f"<{name}>" if not old or old.startswith(f"<{name}/") else raw[start].replace("/>", ">")
    yield "".join(raw[:start])
    for piece in inline_paragraph([old], list(_items(unit[first + 1 : last - 1])), escape_text):
        if isinstance(piece, Paragraph):
            piece = _in_target(piece, (space if not old else "") + tag, f"</{name}>")
        yield piece
    yield "".join(raw[end:])


def _in_target(found: Paragraph, opening: str, closing: str) -> Paragraph:
    def write(translation: str) -> str:
        return opening + found.write(translation) + closing

    return Paragraph(found.source, found.markup, found.characters, write, is_in_place=False)


def _is_translated(unit: XmlToken, target: Sequence[XmlToken]) -> bool:
    state = target[0].attributes().get("state") or unit.attributes().get("state")
    return any(token.text.strip() for token in target) and state not in _UNFINISHED


def _items(inside: Sequence[XmlToken]) -> Iterator[Item]:
    raw, depth = "", 0  # of the object that is open
    for token in inside:
        if depth or not (token.kind is XmlKind.TEXT or token.name in _WRAPPERS):
            raw += token.raw
            depth += {XmlKind.OPEN: 1, XmlKind.CLOSE: -1}.get(token.kind, 0)
            if depth == 0:
                yield Object([raw])
                raw = ""
        elif token.kind is XmlKind.TEXT:
            yield Words(token.text)
        elif token.kind is XmlKind.EMPTY:
            yield Object([token.raw])
        else:
            yield Open(token.raw) if token.kind is XmlKind.OPEN else Close(token.raw)
