"""XML to tokens without loss: the tokens joined are the text.

Expat checks first that the text is well-formed. Trees, also lxml's, forget how a document was spelled, and need
several times its memory; here every token keeps its spelling.
"""

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from html import escape
from typing import Final, NamedTuple
from xml.parsers import expat
from xml.parsers.expat import errors

import regex

from service.errors import InvalidRequest

_DEEPEST: Final = 200
_MOST_PREFIXES: Final = 500
_NAME: Final = r"[^\s/>]++"
_TOKEN: Final = regex.compile(
    rf"""<!--.*?-->|<!\[CDATA\[(?P<data>.*?)\]\]>|<\?.*?\?>|<(?:!DOCTYPE|(?P<close>/?)(?P<name>{_NAME}))"""
    r"""(?:[^>"']++|"[^"]*+"|'[^']*+')*+>|[^<]++""",
    regex.DOTALL,
)
_ATTRIBUTE: Final = regex.compile(r"""\s([^\s=/>]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")
_REFERENCE: Final = regex.compile(r"&(#x[0-9a-fA-F]++|#[0-9]++|amp|lt|gt|quot|apos);")
_PREDEFINED: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_FORBIDDEN: Final = regex.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_KNOWN_TYPES: Final = frozenset(
    {"-//NISO//DTD ncx 2005-1//EN", "-//XLIFF//DTD XLIFF//EN", "-//Apple//DTD PLIST 1.0//EN"}
)
"""Document types by their public names. They are never fetched."""
_KNOWN_NAMES: Final = frozenset({"TS", "tmx"})
"""Formats whose document type has no public name."""


class XmlKind(Enum):
    TEXT = auto()
    OPEN = auto()
    CLOSE = auto()
    EMPTY = auto()
    """A tag that opens and closes an element."""
    OTHER = auto()
    """A comment, a processing instruction, or a document type."""


class XmlToken(NamedTuple):
    kind: XmlKind
    raw: str
    name: str = ""
    """The name of an element: the namespace's short name, a colon, and the local name."""
    text: str = ""
    """The unescaped characters of a text."""

    def attributes(self) -> dict[str, str]:
        """Return the attributes by their names, as they are spelled."""
        return {name: unescape(one or other) for name, one, other in _ATTRIBUTE.findall(self.raw)}

    def places(self) -> Iterator[tuple[str, int, int]]:
        """Yield each attribute's name, and the span of its value in `raw`."""
        for found in _ATTRIBUTE.finditer(self.raw):
            yield found[1], *found.span(2 if found[2] is not None else 3)

    @property
    def local(self) -> str:
        """The name of an element without its namespace."""
        return self.name.rpartition(":")[2]

    @property
    def step(self) -> int:
        """The number of elements that it opens: 1, 0, or -1 for an end tag."""
        return (self.kind is XmlKind.OPEN) - (self.kind is XmlKind.CLOSE)

    @property
    def is_section(self) -> bool:
        """True for a CDATA section."""
        return self.raw.startswith("<![CDATA[")

    @property
    def spelled(self) -> str:
        """The name of an element as it is spelled."""
        return self.raw.lstrip("</").rstrip("/>").split(maxsplit=1)[0]


def check(text: str) -> None:
    """Raise `InvalidRequest` if a text is not well-formed XML, declares entities, or is nested too deep.

    Only known document types are accepted, and only if they declare nothing in the text.
    """
    depth = 0

    def start(name: str, attributes: object) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise InvalidRequest("file", f"the XML in it has more than {_DEEPEST} levels of elements")

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1

    def declare(*_: object) -> None:
        raise InvalidRequest("file", "the XML in it has a document type or entities, which these documents never need")

    def start_type(name: str, system: str | None, public: str | None, declares: bool) -> None:
        if declares or (public not in _KNOWN_TYPES and name not in _KNOWN_NAMES):
            declare()

    def skip(name: str, is_parameter: bool) -> None:
        raise InvalidRequest("file", f"the XML in it is broken: undefined entity {name}")

    parser = expat.ParserCreate("utf-8", " ")
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = start_type
    parser.SkippedEntityHandler = skip
    parser.EntityDeclHandler = declare
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        place = f"line {error.lineno}, column {error.offset + 1}"
        raise InvalidRequest("file", f"the XML in it is broken: {errors.messages[error.code]} ({place})") from None
    except UnicodeEncodeError:
        raise InvalidRequest("file", "the XML in it is broken: it has characters that do not exist") from None


def tokens(text: str, namespaces: Mapping[str, str]) -> Iterator[XmlToken]:
    """Yield the tokens of a text that passed `check`. `namespaces` maps addresses to their short names.

    The address "" is that of elements without a namespace.
    """
    prefixes: list[Mapping[str, str]] = [{"xml": "xml", "": namespaces.get("", "")}]
    for found in _TOKEN.finditer(text):
        raw, name = found[0], found["name"]
        if name is None:
            yield _without_name(raw, found["data"])
        elif found["close"]:
            yield XmlToken(XmlKind.CLOSE, raw, _expanded(name, prefixes.pop()))
        else:
            known = _declared(raw, prefixes[-1], namespaces) if "xmlns" in raw else prefixes[-1]
            if raw.endswith("/>"):
                yield XmlToken(XmlKind.EMPTY, raw, _expanded(name, known))
            else:
                prefixes.append(known)
                yield XmlToken(XmlKind.OPEN, raw, _expanded(name, known))


def _without_name(raw: str, data: str | None) -> XmlToken:
    if data is not None:
        return XmlToken(XmlKind.TEXT, raw, text=data)
    return XmlToken(XmlKind.OTHER, raw) if raw.startswith("<") else XmlToken(XmlKind.TEXT, raw, text=unescape(raw))


def _declared(tag: str, known: Mapping[str, str], namespaces: Mapping[str, str]) -> Mapping[str, str]:
    found = dict(known)
    for name, one, other in _ATTRIBUTE.findall(tag):
        if name == "xmlns" or name.startswith("xmlns:"):
            found[name[6:]] = namespaces.get(unescape(one or other), "")
    if len(found) > _MOST_PREFIXES:
        raise InvalidRequest("file", f"the XML in it declares more than {_MOST_PREFIXES} prefixes at once")
    return found


def _expanded(name: str, prefixes: Mapping[str, str]) -> str:
    prefix, _, local = name.rpartition(":")
    return f"{prefixes.get(prefix, '')}:{local}"


def unescape(raw: str) -> str:
    """Replace character references and XML's own five entities."""
    return _REFERENCE.sub(_referenced, raw) if "&" in raw else raw


def _referenced(found: regex.Match[str]) -> str:
    reference = found[1]
    if reference.startswith("#"):
        return chr(int(reference[2:], 16) if reference[1] == "x" else int(reference[1:]))
    return _PREDEFINED[reference]


def escape_attribute(text: str) -> str:
    """Escape the value of an attribute."""
    return escape(_FORBIDDEN.sub("", text))


def escape_text(text: str) -> str:
    """Escape the text of an element; characters that XML forbids are left out."""
    return escape(_FORBIDDEN.sub("", text), quote=False)


def section(text: str) -> str:
    """Write a CDATA section, or two if its end is in the text; characters that XML forbids are left out."""
    return f"<![CDATA[{_FORBIDDEN.sub('', text).replace(']]>', ']]]]><![CDATA[>')}]]>"
