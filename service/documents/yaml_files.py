"""YAML: the values that are text, each written in its own style again."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import regex
import yaml

from service.documents.paragraph import ReadOptions
from service.documents.passages import Passage
from service.errors import InvalidRequest

_TEXT: Final = "tag:yaml.org,2002:str"
_PROPERTIES: Final = regex.compile(r"\A(?:[&!]\S*+\s++(?:#[^\n]*+\s++)*+)++")
"""The anchor and the tag before a value."""
_BLOCK: Final = regex.compile(r"(?P<head>[|>][-+0-9]*[^\n]*\n)(?P<indent>[ ]*)", regex.DOTALL)
_SYMBOL: Final = regex.compile(r":\w+")
_PLAIN: Final = regex.compile(r"(?![-?:,\[\]{}#&*!|>'\"%@`\s])(?:(?!: | #|:$)[^\n,\[\]{}])+(?<!\s)")
"""A text that needs no quotes."""


def read_yaml(
    text: str, _: ReadOptions | None = None, wanted: Callable[[Sequence[str]], bool] = lambda path: True
) -> Iterator[Passage]:
    """Read the values that are text, at any depth, whose path is wanted: the names of the fields around them.

    Names of fields are copied.
    """
    try:
        for document in yaml.compose_all(text, yaml.CSafeLoader):
            yield from _values(text, document, (), wanted, set())
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InvalidRequest("file", f"the YAML is broken: {error.problem} (line {line})") from None
    except yaml.YAMLError:
        raise InvalidRequest("file", "the YAML is broken: it has characters that YAML forbids") from None


def _values(
    text: str,
    node: yaml.Node | None,
    path: tuple[str, ...],
    wanted: Callable[[Sequence[str]], bool],
    seen: set[yaml.Node],
) -> Iterator[Passage]:
    if node is None or node in seen:
        return  # an alias has the node of its anchor
    seen.add(node)
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            seen.add(name)
            yield from _values(text, value, (*path, str(name.value)), wanted, seen)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _values(text, value, (*path, ""), wanted, seen)
    elif isinstance(node, yaml.ScalarNode) and node.tag == _TEXT and wanted(path):
        end = node.end_mark.index
        raw = _PROPERTIES.sub("", text[node.start_mark.index : end])
        place = end - len(raw), end
        if _SYMBOL.fullmatch(raw):
            return  # one of Ruby's names
        if node.style in ("|", ">"):
            yield from _block(raw, place, is_folded=node.style == ">")
        else:
            yield Passage(place, node.value, partial(_written, style=node.style), context="entry")


def _block(raw: str, place: tuple[int, int], *, is_folded: bool) -> Iterator[Passage]:
    head = _BLOCK.match(raw)
    if head is None:
        return
    start = place[0] + head.end()
    for paragraph in regex.finditer(r"\S[^\n]*(?:\n[ ]*+\S[^\n]*)*" if is_folded else r"\S[^\n]*", raw, pos=head.end()):
        words = " ".join(paragraph[0].split())
        begin = start + paragraph.start() - head.end()
        yield Passage((begin, begin + len(paragraph[0].rstrip())), words, context="entry")


def _written(text: str, style: str | None) -> str:
    if style == "'":
        return "'" + text.replace("'", "''") + "'"
    if style != '"' and _PLAIN.fullmatch(text) and yaml.safe_load(text) == text:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
