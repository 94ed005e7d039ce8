"""XML to segments: tags that give a document its structure separate sentences, all others stay in them as marks."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Final

from service.text.markup.runs import copied_segment, partners_of, split_run
from service.text.markup.source_map import OBJECT, Fragment, parse_text
from service.text.markup.tokenizer import Token, TokenKind, tokenize_xml
from service.text.segment import Segment
from service.text.splitter import Splitter

_LONGEST_SHOWN: Final = 64  # characters of a wrong tag
_ROOT: Final = -1
"""The parent of the outermost elements."""


@dataclass(frozen=True)
class XmlTags:
    """The meaning of tags, by their names. The last rule counts for names without another rule."""

    ignored: Set[str] = frozenset()
    """Elements that are copied with their content."""
    splitting: Set[str] = frozenset()
    non_splitting: Set[str] = frozenset()
    detects_outline: bool = True
    """True if elements separate sentences, unless text stands beside them or beside an ancestor."""


def split_xml(xml: str, language: str, splitter: Splitter, tags: XmlTags) -> Iterator[Segment]:
    """Split XML into segments; the segments' texts joined are the XML."""
    return splitter.merge_copied(_segments(xml, language, splitter, tags))


def find_xml_error(xml: str) -> str:
    """Describe the first wrong tag of XML; "" if each tag has its partner."""
    tokens = list(tokenize_xml(xml))
    partners = partners_of(tokens)
    for number, token in enumerate(tokens):
        is_pair = token.kind in (TokenKind.OPEN, TokenKind.CLOSE) and not token.is_empty
        if is_pair and number not in partners:
            return f"{token.raw[:_LONGEST_SHOWN]} has no partner"
        if token.kind is TokenKind.OTHER and not token.raw.endswith(">"):
            return f"{token.raw[:_LONGEST_SHOWN]} has no end"
    return ""


def _segments(xml: str, language: str, splitter: Splitter, tags: XmlTags) -> Iterator[Segment]:
    tokens = list(tokenize_xml(xml))
    partners = partners_of(tokens)
    outline = _outline(tokens, partners) if tags.detects_outline else frozenset()
    run: list[Fragment] = []
    number = 0
    while number < len(tokens):
        token = tokens[number]
        is_tag = token.kind in (TokenKind.OPEN, TokenKind.CLOSE)
        is_ignored = is_tag and token.name in tags.ignored
        # An ignored element is copied with its content.
        last = max(partners.get(number, number), number) if is_ignored else number
        raw = "".join(each.raw for each in tokens[number : last + 1])
        if is_tag and _splits(token.name, number in outline, tags):
            yield from split_run(run, language, splitter, encoding="xml")
            yield copied_segment(raw)
            run = []
        elif is_ignored:
            run.append(Fragment(OBJECT, raw))
        elif token.kind is TokenKind.TEXT:
            *lines, rest = token.raw.split("\n") if splitter.splitting in (None, "lines") else [token.raw]
            for line in lines:
                yield from split_run([*run, *parse_text(f"{line}\n")], language, splitter, encoding="xml")
                run = []
            run += parse_text(rest)
        else:
            run.append(Fragment("", raw, token))
        number = last + 1
    yield from split_run(run, language, splitter, encoding="xml")


def _splits(name: str, is_in_outline: bool, tags: XmlTags) -> bool:
    if name in tags.splitting or name in tags.non_splitting:
        return name not in tags.non_splitting
    return is_in_outline


def _outline(tokens: Sequence[Token], partners: dict[int, int]) -> Set[int]:
    """Return the tags of elements without text beside them or beside an ancestor."""
    parents: list[int] = []
    open_elements = [_ROOT]
    with_text: set[int] = set()
    for number, token in enumerate(tokens):
        if token.kind is TokenKind.CLOSE and partners.get(number) == open_elements[-1]:
            open_elements.pop()
        parents.append(open_elements[-1])
        if token.kind is TokenKind.TEXT and not token.raw.isspace():
            with_text.add(open_elements[-1])
        elif token.kind is TokenKind.OPEN and partners.get(number, number) > number:
            open_elements.append(number)
    structure = {_ROOT} - with_text
    outline: set[int] = set()
    for number, token in enumerate(tokens):
        if token.kind in (TokenKind.OPEN, TokenKind.CLOSE) and parents[number] in structure:
            outline.add(number)
            if number not in with_text:
                structure.add(number)
    return outline
