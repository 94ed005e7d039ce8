"""XLIFF 1.2 and 2 to pieces: each source is translated into the target beside it if that is empty."""

from collections.abc import Iterator, Sequence
from typing import Final

import regex

from service.documents.paragraph import Kept, Paragraph, Piece, ReadOptions
from service.documents.passages import escaped_tags, inline_paragraph, paired, plain_items
from service.documents.tagged import Close, Item, Object, Open
from service.documents.xml_text import XmlKind, XmlToken, check, escape_text, tokens
from service.errors import InvalidRequest
from service.text.placeholders import is_icu_message

_NAMESPACES: Final = {
    "": "x",  # that of version 1.0
    **{f"urn:oasis:names:tc:xliff:document:{version}": "x" for version in ("1.1", "1.2", "2.0", "2.1", "2.2")},
}
_UNITS: Final = frozenset({"x:trans-unit", "x:segment"})
_HOLDERS: Final = frozenset({"x:xliff", "x:group", "x:unit", "x:body", "x:file"})
_WRAPPERS: Final = frozenset({"x:g", "x:mrk", "x:pc"})
_UNFINISHED: Final = frozenset({"new", "initial", "needs-translation"})
_STATE: Final = regex.compile(r'(\sstate\s*=\s*["\'])(?:new|initial|needs-translation)(?=["\'])')
_LANGUAGES: Final = {
    "x:file": {"source": "source-language", "target": "target-language"},
    "x:xliff": {"source": "srcLang", "target": "trgLang"},
}
_SPACE: Final = regex.compile(r"\s*\n\s*")
_ANGULAR: Final = regex.compile(r"(START|CLOSE)_(?!BLOCK_)(\w+)")


def split_xliff(text: str, options: ReadOptions) -> Iterator[Piece]:
    """Split XLIFF into its units. Raises `InvalidRequest` if it is broken, or declares other languages."""
    check(text)
    found = tokens(text, _NAMESPACES)
    root = next((token for token in found if token.kind in (XmlKind.OPEN, XmlKind.EMPTY)), None)
    if root is None or root.name != "x:xliff":
        raise InvalidRequest("file", "it is not XLIFF 1 or 2")
    is_old = root.attributes().get("version", "1")[:1] == "1"
    return _Reader(tokens(text, _NAMESPACES), options, is_old=is_old).read()


class _Reader:
    def __init__(self, found: Iterator[XmlToken], options: ReadOptions, *, is_old: bool) -> None:
        self._tokens = found
        self._options = options
        self._is_old = is_old
        self._inherited: list[tuple[bool, bool]] = [(True, False)]
        """Two answers for each open element: is it translated, and is its white space kept?"""

    def read(self) -> Iterator[Piece]:
        for token in self._tokens:
            if token.kind is XmlKind.CLOSE and token.name in _HOLDERS:
                self._inherited.pop()
            elif token.kind is XmlKind.OPEN and token.name in _HOLDERS | _UNITS:
                is_translated, keeps_space = self._inherit(token)
                if token.name in _UNITS:
                    unit = [token, *_rest(self._tokens)]
                    yield from self._unit(unit, keeps_space) if is_translated else [each.raw for each in unit]
                    continue
                self._inherited.append((is_translated, keeps_space))
            is_file = token.name == ("x:file" if self._is_old else "x:xliff")
            yield self._with_language(token) if token.kind is XmlKind.OPEN and is_file else token.raw

    def _inherit(self, token: XmlToken) -> tuple[bool, bool]:
        is_translated, keeps_space = self._inherited[-1]
        values = token.attributes()
        return (
            values.get("translate", "yes" if is_translated else "no") == "yes",
            values.get("xml:space", "preserve" if keeps_space else "") == "preserve",
        )

    def _with_language(self, token: XmlToken) -> str:
        """Add the target language that the standard wants beside targets, if it is missing; compare it if not."""
        names, values = _LANGUAGES[token.name], token.attributes()
        self._options.check("the file", values.get(names["source"], ""), values.get(names["target"], ""))
        if not values.get(names["target"]):
            return f'{token.raw[:-1]} {names["target"]}="{self._options.target}">'
        return token.raw

    def _unit(self, unit: Sequence[XmlToken], keeps_space: bool) -> Iterator[Piece]:
        children = {unit[start].name: (start, end) for start, end in _children(unit)}
        raw = [token.raw for token in unit]
        first, last = children.get("x:source", (0, 0))
        start, end = children.get("x:target", (0, 0))
        if not last or unit[first].kind is XmlKind.EMPTY or (end and _is_translated(unit[0], unit[start:end])):
            yield "".join(raw)
            return
        if not end:
            start = end = children.get("x:seg-source", (first, last))[1]
        space = raw[first - 1] if raw[first - 1].isspace() else ""
        name = unit[first].spelled.removesuffix("source") + "target"
        old = "".join(raw[start:end])
        tag = f"<{name}>" if not old or old.startswith(f"<{name}/") else raw[start].replace("/>", ">")
        segmented = children.get("x:seg-source", (first, last))
        found = list(_contents(unit[segmented[0] + 1 : segmented[1] - 1], keeps_space=keeps_space))
        if any(isinstance(piece, Paragraph) for piece in found):
            done = r"\1needs-review-translation" if self._is_old else r"\1translated"
            opening = _STATE.sub(done, (space if not old else "") + tag)
            yield from [_STATE.sub(done, raw[0]), *raw[1:start], opening, *found, f"</{name}>"]
        else:
            kept = "".join(token.text for token in unit[first:last])
            yield from [*raw[:start], Kept(old, "a message with cases") if is_icu_message(kept.strip()) else old]
        yield "".join(raw[end:])


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


def _contents(inside: Sequence[XmlToken], *, keeps_space: bool) -> Iterator[Piece]:
    """Yield the content of a target for the content of its source; each segment is a paragraph."""
    around = [*inside[:1], *inside, *inside[-1:]]
    children = [inside[start - 1 : end - 1] for start, end in _children(around)]
    if not any(_is_segment(child[0]) for child in children):
        yield from _paragraph(inside, keeps_space=keeps_space)
        return
    for child in children:
        if _is_segment(child[0]):
            yield from [child[0].raw, *_paragraph(child[1:-1], keeps_space=keeps_space), child[-1].raw]
        else:
            yield "".join(token.raw for token in child)


def _is_segment(token: XmlToken) -> bool:
    return token.name == "x:mrk" and token.kind is XmlKind.OPEN and token.attributes().get("mtype") == "seg"


def _paragraph(inside: Sequence[XmlToken], *, keeps_space: bool) -> list[Piece]:
    source = "".join(token.raw for token in inside)
    if is_icu_message("".join(token.text for token in inside).strip()):
        return [source]
    found = inline_paragraph(
        [source], paired(list(_items(inside, keeps_space=keeps_space)), _mark), escape_text, "entry"
    )
    for piece in found:
        if isinstance(piece, Paragraph):
            piece.is_in_place = False
    return found


def _is_translated(unit: XmlToken, target: Sequence[XmlToken]) -> bool:
    state = target[0].attributes().get("state") or unit.attributes().get("state")
    return any(token.text.strip() for token in target) and state not in _UNFINISHED


def _items(inside: Sequence[XmlToken], *, keeps_space: bool) -> Iterator[Item]:
    raw, depth = "", 0  # of the object that is open
    for token in inside:
        if depth or not (token.kind is XmlKind.TEXT or token.name in _WRAPPERS) or _is_protected(token):
            raw += token.raw
            depth += {XmlKind.OPEN: 1, XmlKind.CLOSE: -1}.get(token.kind, 0)
            if depth == 0:
                yield Object([raw], is_word=raw.startswith("<mrk"))
                raw = ""
        elif token.kind is XmlKind.TEXT:
            text = token.text if keeps_space else _SPACE.sub(" ", token.text)
            yield from escaped_tags(plain_items(text), escape_text)
        elif token.kind is XmlKind.EMPTY:
            yield Object([token.raw])
        else:
            yield Open(token.raw) if token.kind is XmlKind.OPEN else Close(token.raw)


def _is_protected(token: XmlToken) -> bool:
    values = token.attributes() if token.kind is XmlKind.OPEN and token.name == "x:mrk" else {}
    return values.get("translate") == "no" or values.get("mtype") == "protected"


def _mark(raw: str) -> tuple[bool, str]:
    """Return whether an object begins something, and what, so that its end can be found; "" for another object."""
    tag = next(tokens(raw, {}))
    name, values = tag.name.rpartition(":")[2], tag.attributes()
    if name in ("bpt", "ept"):
        return name == "bpt", f"pt {values.get('rid') or values.get('id', '')}"
    if name in ("sc", "ec"):
        return name == "sc", f"c {values.get('startRef') or values.get('id', '')}"
    angular = _ANGULAR.fullmatch(values.get("id", "")) if name == "x" else None
    if angular is not None:
        return angular[1] == "START", f"x {regex.sub(r'_[0-9]+$', '', angular[2])}"
    return False, ""
