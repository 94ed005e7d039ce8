"""YAML: the values that are text, each written in its own style again."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import regex
import yaml

from service.documents.paragraph import ReadOptions
from service.documents.passages import Passage
from service.errors import InvalidRequest

_TEXT: Final = "tag:yaml.org,2002:str"
_DEEPEST: Final = 100
_BLOCK: Final = regex.compile(r"(?P<head>[|>][-+0-9]*[^\n]*\n)(?P<indent>[ ]*)", regex.DOTALL)
_PLAIN: Final = regex.compile(r"(?![-?:,\[\]{}#&*!|>'\"%@`\s])(?:(?!: | #|:$)[^\n,\[\]{}])+(?<!\s)")
"""A text that needs no quotes."""


def read_yaml(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the values of YAML that are text. Names of fields are copied."""
    return yaml_passages(text)


def yaml_passages(text: str, wanted: Callable[[str], bool] = lambda name: True) -> Iterator[Passage]:
    """Read the values of fields, at any depth, whose outermost field is wanted."""
    start = len(text) - len(text.removeprefix("\ufeff"))
    try:
        for document in yaml.compose_all(text[start:], yaml.CSafeLoader):
            fields = document.value if isinstance(document, yaml.MappingNode) else [(None, document)]
            for name, value in fields:
                if name is None or wanted(name.value):
                    yield from _values(text, start, value, 0)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InvalidRequest("file", f"the YAML is broken: {error.problem} (line {line})") from None
    except yaml.YAMLError:
        raise InvalidRequest("file", "the YAML is broken: it has characters that YAML forbids") from None


def _values(text: str, start: int, node: yaml.Node | None, depth: int) -> Iterator[Passage]:
    if depth > _DEEPEST:
        raise InvalidRequest("file", f"the YAML is nested deeper than {_DEEPEST} levels")
    if isinstance(node, yaml.MappingNode):
        for _, value in node.value:
            yield from _values(text, start, value, depth + 1)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _values(text, start, value, depth + 1)
    elif isinstance(node, yaml.ScalarNode) and node.tag == _TEXT:
        place = start + node.start_mark.index, start + node.end_mark.index
        raw = text[slice(*place)]
        if raw[:1] == "*":
            return  # the name of a value that stands elsewhere
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
