"""Localisation files and subtitles in XML whose texts are the contents of elements: a rule for each format.

Android, resx (.NET), ts (Qt), stringsdict (Apple), tmx and ttml. Everything outside of the texts keeps its spelling.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import regex

from service.documents.paragraph import ReadOptions
from service.documents.passages import Passage, escaped_tags, plain_items
from service.documents.tagged import Close, Item, Object, Open
from service.documents.xml_text import XmlKind, XmlToken, check, escape_text, section, tokens, unescape
from service.errors import InvalidRequest

_LINE_END: Final = regex.compile(r"\s*\n\s*")
_CODES: Final = frozenset({"g", "ph", "bpt", "ept", "it"})
"""Elements whose content is no text: placeholders of Android, codes of translation memories."""
_PLURALS: Final = frozenset("zero one two few many other".split())
_TTML_LANGUAGE: Final = regex.compile(r"""<(?:\w+:)?tt\s[^<>]*?\bxml:lang=["']([\w-]+)""")
_ANDROID_ESCAPE: Final = regex.compile(r"\\([\"'@?\\])")
_ANDROID_QUOTED: Final = regex.compile(r'\s*+"(?:[^"\\]|\\.)*+"\s*+', regex.DOTALL)
_ANDROID_SPECIAL: Final = regex.compile(r"(?<!\\)[\"']|^[@?]")


class Element(NamedTuple):
    """An element with text."""

    path: Sequence[XmlToken]
    """The start tags of the elements around it, and its own."""
    inside: Sequence[XmlToken]
    place: tuple[int, int]
    """The place of its content."""
    key: str
    """The text of the last element `key` before it."""

    @property
    def name(self) -> str:
        return self.path[-1].local

    @property
    def parent(self) -> str:
        return self.path[-2].local if len(self.path) > 1 else ""

    @property
    def text(self) -> str:
        return "".join(token.text for token in self.inside)

    @property
    def encode(self) -> Callable[[str], str]:
        """Writes its text, which comes escaped, as it stands in the document."""
        return as_section if is_section(self.inside) else str


def is_section(inside: Sequence[XmlToken]) -> bool:
    """Return True if all text of an element stands in CDATA sections."""
    texts = [token for token in inside if token.text.strip() or token.kind is not XmlKind.TEXT]
    return bool(texts) and all(token.is_section for token in texts)


def as_section(escaped: str) -> str:
    """Write escaped text as a CDATA section."""
    return section(unescape(escaped))


def element_items(
    inside: Sequence[XmlToken],
    is_object: Callable[[XmlToken], bool],
    read: Callable[[str], str] = str,
    *,
    keeps_lines: bool,
) -> list[Item]:
    """Return the content of an element; elements around words are wrappers, the given ones and empty ones objects.

    Its lines are joined unless they count. `read` replaces escapes of the format; tags of HTML in a text are escaped
    again, or stand in CDATA sections.
    """
    items: list[Item] = []
    raw, depth = "", 0  # of the object that is open
    is_whole = is_section(inside)
    for token in inside:
        is_text = token.kind is XmlKind.TEXT
        if depth or not (is_text or (token.step and not is_object(token))):
            raw += token.raw
            depth += token.step
            if depth == 0:
                is_word = token.kind is XmlKind.CLOSE and token.local in ("mrk", "g")
                items.append(Object([raw], is_break=token.local == "br", is_word=is_word))
                raw = ""
        elif is_text:
            write = section if token.is_section and not is_whole else escape_text
            text = token.text if keeps_lines else _LINE_END.sub(" ", token.text)
            items += escaped_tags(plain_items(read(text)), write)
        else:
            items.append(Open(token.raw) if token.kind is XmlKind.OPEN else Close(token.raw))
    return items


def elements(text: str, names: frozenset[str], root: str) -> Iterator[Element]:
    """Yield the elements of the given names, with their content. Raises `InvalidRequest`."""
    check(text)
    path: list[XmlToken] = []
    position = start = depth = 0
    inside: list[XmlToken] | None = None
    key = ""
    for token in tokens(text, {}):
        end = position + len(token.raw)
        if token.kind in (XmlKind.OPEN, XmlKind.EMPTY) and not path and token.local != root:
            raise InvalidRequest("file", f"its content is not that of such a file: it begins with {token.local}")
        if token.kind is XmlKind.OPEN:
            path.append(token)
        if inside is not None and token.kind is XmlKind.CLOSE and len(path) == depth:
            found = Element(tuple(path), inside, (start, position), key)
            key = found.text if found.name == "key" else key
            yield found
            inside = None
        elif inside is not None:
            inside.append(token)
        elif token.kind is XmlKind.OPEN and token.local in names:
            inside, start, depth = [], end, len(path)
        if token.kind is XmlKind.CLOSE:
            path.pop()
        position = end


def read_android(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the strings of an Android app, but not those that say that they are not translatable."""
    for found in elements(text, frozenset({"string", "item"}), "resources"):
        if found.name == "item" and found.parent not in ("string-array", "plurals"):
            continue
        values = [token.attributes() for token in found.path]
        if any(each.get("translatable") == "false" for each in values) or found.text.startswith(("@", "?")):
            continue
        is_quoted = _ANDROID_QUOTED.fullmatch(text, *found.place) is not None
        found = _without_quotes(text, found) if is_quoted else found
        items = element_items(found.inside, _is_code, partial(_ANDROID_ESCAPE.sub, r"\1"), keeps_lines=is_quoted)
        yield Passage(found.place, encode=found.encode, context="entry", items=items, write_text=_android)


def _without_quotes(text: str, found: Element) -> Element:
    """Return a string of Android without the quotes around it, by which its white space counts."""
    inside = list(found.inside)
    inside[0] = inside[0]._replace(text=inside[0].text.lstrip()[1:])
    inside[-1] = inside[-1]._replace(text=inside[-1].text.rstrip()[:-1])
    return found._replace(inside=inside, place=(text.index('"', found.place[0]) + 1, text.rindex('"', *found.place)))


def _android(text: str) -> str:
    return escape_text(_ANDROID_SPECIAL.sub(lambda found: f"\\{found[0]}", text))


def read_resx(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the strings of a .NET resource file; other resources have a type."""
    for found in elements(text, frozenset({"value"}), "root"):
        values = found.path[-2].attributes() if found.parent == "data" else {"type": ""}
        if not {"type", "mimetype"} & values.keys() and not values.get("name", "").startswith(">>"):
            yield _entry(found)


def _entry(found: Element, *, keeps_lines: bool = True) -> Passage:
    items = element_items(found.inside, _is_code, keeps_lines=keeps_lines)
    return Passage(found.place, encode=found.encode, context="entry", items=items, write_text=escape_text)


def _is_code(token: XmlToken) -> bool:
    return token.local in _CODES


def read_stringsdict(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the plural forms of Apple's stringsdict."""
    for found in elements(text, frozenset({"key", "string"}), "plist"):
        if found.name == "string" and found.key in _PLURALS:
            yield _entry(found)


def read_ttml(text: str, options: ReadOptions) -> Iterator[Passage]:
    """Read the paragraphs of TTML subtitles. The declared language becomes that of the translation."""
    if options.target and (language := _TTML_LANGUAGE.search(text)):
        yield Passage(language.span(1), pieces=[options.target])
    for found in elements(text, frozenset({"p"}), "tt"):
        yield _entry(found, keeps_lines=False)._replace(context="cue")


def read_ts(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the messages of Qt that are unfinished; they stay marked so, since nobody has read them."""
    source: Element | None = None
    for found in elements(text, frozenset({"source", "translation"}), "TS"):
        if found.name == "source":
            source = found
        elif source is not None and found.path[-1].attributes().get("type") == "unfinished" and not found.text.strip():
            forms = [token for token in found.inside if token.local == "numerusform" and token.kind is XmlKind.OPEN]
            write = partial(_forms, count=len(forms))
            yield _entry(source)._replace(place=found.place, encode=write, is_in_place=False)


def _forms(text: str, count: int) -> str:
    return f"<numerusform>{text}</numerusform>" * count if count else text


def read_tmx(text: str, options: ReadOptions) -> Iterator[Passage]:
    """Read the segments of a translation memory that have no translation: one is added to their unit."""
    for unit in elements(text, frozenset({"tu"}), "tmx"):
        languages = [token for token in unit.inside if token.kind is XmlKind.OPEN and token.local == "tuv"]
        codes = [_language(token) for token in languages]
        wanted = options.source.partition("-")[0] or (codes[0] if codes else "")
        if wanted not in codes or options.target.partition("-")[0] in codes:
            continue
        raw = "".join(token.raw for token in unit.inside)
        segments = list(elements(f"<tu>{raw}</tu>", frozenset({"seg"}), "tu"))
        segment = segments[codes.index(wanted)] if len(segments) == len(codes) else None
        if segment is not None:
            tag = f'<tuv xml:lang="{options.target}"><seg>'
            write = partial("{}{}</seg></tuv>".format, tag)
            passage = _entry(segment, keeps_lines=False)
            yield passage._replace(place=(unit.place[1], unit.place[1]), encode=write, is_in_place=False)


def _language(tag: XmlToken) -> str:
    values = tag.attributes()
    return (values.get("xml:lang") or values.get("lang", "")).lower().partition("-")[0]
