"""Fluent (ftl): values and attributes of messages, by fluent.syntax, which says where they stand."""

from collections.abc import Iterator
from typing import Final

import regex
from fluent.syntax import FluentParser, ast

from service.documents.paragraph import ReadOptions
from service.documents.passages import Passage, plain_items
from service.documents.tagged import Item, Object
from service.errors import InvalidRequest

_SPACE: Final = regex.compile(r"\s*\n\s*")


def read_fluent(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the patterns of messages and terms, and of each variant by itself. Lines of a text are joined."""
    try:
        body = FluentParser(with_spans=True).parse(text).body
    except RecursionError:
        raise InvalidRequest("file", "it is nested too deep") from None
    for entry in body:
        if isinstance(entry, ast.Junk):
            line = text.count("\n", 0, entry.span.start if entry.span else 0) + 1
            raise InvalidRequest("file", f"the Fluent file is broken: {entry.annotations[0].message} (line {line})")
        if isinstance(entry, ast.Message | ast.Term):
            patterns = [entry.value, *(attribute.value for attribute in entry.attributes)]
            for pattern in patterns:
                if pattern is not None:
                    yield from _pattern(text, pattern)


def _pattern(text: str, pattern: ast.Pattern) -> Iterator[Passage]:
    variants = [_variants(element) for element in pattern.elements]
    if not any(variants):
        yield from _passage(text, pattern.elements)
        return
    for element, found in zip(pattern.elements, variants, strict=True):
        if isinstance(element, ast.TextElement):
            yield from _passage(text, [element])
        for variant in found:
            yield from _pattern(text, variant)


def _variants(element: ast.TextElement | ast.Placeable) -> list[ast.Pattern]:
    if isinstance(element, ast.Placeable) and isinstance(element.expression, ast.SelectExpression):
        return [variant.value for variant in element.expression.variants]
    return []


def _passage(text: str, elements: list[ast.TextElement | ast.Placeable]) -> Iterator[Passage]:
    items: list[Item] = []
    for element in elements:
        assert element.span is not None
        if isinstance(element, ast.TextElement):
            items += plain_items(_SPACE.sub(" ", element.value))
        else:
            items.append(Object([text[element.span.start : element.span.end]], is_word=True))
    first, last = elements[0].span, elements[-1].span
    assert first is not None
    assert last is not None
    yield Passage((first.start, last.end), encode=_begun, context="entry", items=items, write_text=_written)


def _written(text: str) -> str:
    return str(regex.sub("[{}]", _quoted, text))


def _begun(text: str) -> str:
    """Write a whole text: signs that begin something at the start of a line are quoted."""
    return str(regex.sub(r"^[\[*.]", _quoted, text))


def _quoted(found: regex.Match[str]) -> str:
    return f'{{"{found[0]}"}}'
