"""XLIFF 1.2 and 2: each source is translated into the target beside it if that is empty."""

from collections.abc import Iterator, Sequence
from typing import Final

import regex

from service.documents.paragraph import ReadOptions
from service.documents.passages import Passage, paired
from service.documents.xml_strings import Element, as_section, element_items, elements, is_section
from service.documents.xml_text import XmlKind, XmlToken, escape_text, tokens
from service.text.placeholders import is_icu_message
from service.text.segment import has_words

_UNITS: Final = frozenset({"trans-unit", "segment"})
_WRAPPERS: Final = frozenset({"g", "mrk", "pc"})
_LANGUAGES: Final = {"file": ("source-language", "target-language"), "xliff": ("srcLang", "trgLang")}
UNFINISHED: Final = frozenset({"new", "initial", "needs-translation"})
_STATE: Final = regex.compile(rf'(?<=\sstate\s*=\s*["\'])(?:{"|".join(UNFINISHED)})(?=["\'])')
_TAGS: Final = frozenset({XmlKind.OPEN, XmlKind.EMPTY})
_ANGULAR: Final = regex.compile(r"(START|CLOSE)_(?!BLOCK_)(\w+)")

_Child = tuple[int, Sequence[XmlToken]]
"""A child of an element: where it begins in the document, and its tokens."""


def read_xliff(text: str, options: ReadOptions) -> Iterator[Passage]:
    """Read the units. Raises `InvalidRequest` if the file is broken, or declares other languages."""
    units = [passage for unit in elements(text, _UNITS, "xliff") for passage in _unit(text, unit)]
    yield from sorted([*_languages(text, options), *units], key=lambda passage: passage.place)


def _languages(text: str, options: ReadOptions) -> Iterator[Passage]:
    """Add the target language that the standard wants beside targets, where it is missing; compare it where not."""
    end, holder = 0, "xliff"
    for token in tokens(text, {}):
        end += len(token.raw)
        if token.kind is XmlKind.OPEN and token.local == "xliff" and _is_old(token):
            holder = "file"
        if token.kind is XmlKind.OPEN and token.local == holder:
            (source, target), values = _LANGUAGES[holder], token.attributes()
            options.check("the file", values.get(source, ""), values.get(target, ""))
            if not values.get(target):
                empty = [end - len(token.raw) + start for name, start, _ in token.places() if name == target]
                place, written = (empty[0], "{}") if empty else (end - 1, f' {target}="{{}}"')
                yield Passage((place, place), pieces=[written.format(options.target)])


def _is_old(root: XmlToken) -> bool:
    return root.attributes().get("version", "1")[:1] == "1"


def _inherited(unit: Element, name: str) -> str:
    """Return an attribute of a unit or of the innermost element around it that has it."""
    found = (token.attributes().get(name, "") for token in reversed(unit.path))
    return next(filter(None, found), "")


def _unit(text: str, unit: Element) -> Iterator[Passage]:
    if _prefix(unit.path[-1]) != _prefix(unit.path[0]):
        return  # another format's
    children = {
        child[0].local: (start, child)
        for start, child in _children(unit.place[0], unit.inside)
        if child[0].kind in _TAGS and _prefix(child[0]) == _prefix(unit.path[0])
    }
    if "source" not in children or _inherited(unit, "translate") == "no":
        return
    start, source = children["source"]
    model_start, model = children.get("seg-source", (start, source))
    end = model_start + len(_raw(model))
    place, target = children.get("target", (end, []))
    if target and _is_translated(unit.path[-1], target):
        return
    old = place, place + len(_raw(target))
    contents = list(_contents(old[1], model[1:-1], keeps_space=_inherited(unit, "xml:space") == "preserve"))
    if all(passage.pieces is not None for passage in contents):
        if is_icu_message(_text(source).strip()):
            yield Passage(old, kept="a message with cases")
        return
    done = "needs-review-translation" if _is_old(unit.path[0]) else "translated"
    if state := _STATE.search(unit.path[-1].raw):
        begin = unit.place[0] - len(unit.path[-1].raw)
        yield Passage((begin + state.start(), begin + state.end()), pieces=[done])
    name = source[0].spelled.removesuffix("source") + "target"
    before = text[unit.place[0] : start]
    opening = target[0].raw.replace("/>", ">") if target else f"{before[len(before.rstrip()) :]}<{name}>"
    yield Passage(old, pieces=[_STATE.sub(done, opening)])
    yield from contents
    yield Passage((old[1], old[1]), pieces=[f"</{name}>"])


def _prefix(token: XmlToken) -> str:
    """Return the prefix of a tag's name: the format's own elements have the root's."""
    return token.spelled.rpartition(":")[0]


def _raw(inside: Sequence[XmlToken]) -> str:
    return "".join(token.raw for token in inside)


def _text(inside: Sequence[XmlToken]) -> str:
    return "".join(token.text for token in inside)


def _children(start: int, inside: Sequence[XmlToken]) -> Iterator[_Child]:
    """Yield the children of an element, its texts too; its content begins at `start`."""
    depth = first = 0
    for number, token in enumerate(inside, 1):
        depth += token.step
        if depth == 0:
            yield start, inside[first:number]
            start, first = start + len(_raw(inside[first:number])), number


def _contents(place: int, inside: Sequence[XmlToken], *, keeps_space: bool) -> Iterator[Passage]:
    """Yield the content of the target at a place for the content of its source; each segment is a text."""
    children = [child for _, child in _children(0, inside)]
    if not any(_is_segment(child[0]) for child in children):
        yield _content(place, inside, keeps_space=keeps_space)
        return
    for child in children:
        if _is_segment(child[0]):
            yield Passage((place, place), pieces=[child[0].raw])
            yield _content(place, child[1:-1], keeps_space=keeps_space)
            yield Passage((place, place), pieces=[child[-1].raw])
        else:
            yield Passage((place, place), pieces=[_raw(child)])


def _content(place: int, inside: Sequence[XmlToken], *, keeps_space: bool) -> Passage:
    text = _text(inside)
    if is_icu_message(text.strip()) or not has_words(text):
        return Passage((place, place), pieces=[_raw(inside)])
    items = paired(element_items(inside, _is_object, keeps_lines=keeps_space), _mark)
    encode = as_section if is_section(inside) else str
    found = Passage((place, place), context="entry", items=items, write_text=escape_text)
    return found._replace(encode=encode, is_in_place=False)


def _is_segment(token: XmlToken) -> bool:
    return token.local == "mrk" and token.kind is XmlKind.OPEN and token.attributes().get("mtype") == "seg"


def _is_translated(unit: XmlToken, target: Sequence[XmlToken]) -> bool:
    state = target[0].attributes().get("state") or unit.attributes().get("state")
    return any(token.text.strip() for token in target) and state not in UNFINISHED


def _is_object(token: XmlToken) -> bool:
    """Return True for an element that is copied: a code, or protected text."""
    values = token.attributes() if token.kind is XmlKind.OPEN and token.local == "mrk" else {}
    is_protected = values.get("translate") == "no" or values.get("mtype") == "protected"
    return is_protected or token.local not in _WRAPPERS


def _mark(raw: str) -> tuple[bool, str]:
    """Return whether an object begins something, and what, so that its end can be found; "" for another object."""
    tag = next(tokens(raw, {}))
    name, values = tag.local, tag.attributes()
    if name in ("bpt", "ept"):
        return name == "bpt", f"pt {values.get('rid') or values.get('id', '')}"
    if name in ("sc", "ec"):
        return name == "sc", f"c {values.get('startRef') or values.get('id', '')}"
    angular = _ANGULAR.fullmatch(values.get("id", "")) if name == "x" else None
    if angular is not None:
        return angular[1] == "START", f"x {regex.sub(r'_[0-9]+$', '', angular[2])}"
    return False, ""
