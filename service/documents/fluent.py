"""Fluent (ftl): values and attributes of messages, by fluent.syntax, which says where they stand."""

from collections.abc import Iterator
from typing import Final

import regex
from fluent.syntax import FluentParser, ast

from service.documents.paragraph import ReadOptions, render
from service.documents.passages import Passage, plain_items
from service.documents.tagged import Close, Item, Object, Open, Words
from service.errors import InvalidRequest

_SPACE: Final = regex.compile(r"\s*\n\s*")
_BREAK: Final = regex.compile(r"(?<=[.:!?>])[ ]*+\n\s*+|\n\s*+(?=<|[-•]\s|[0-9]{1,3}[.)]\s)")
"""A line end that a reader may see: after a sentence, or before an item or a tag."""
_KEPT: Final = "\1"
_SIGN: Final = regex.compile(r"(?<=(?:\A|\n)[ ]*)[\[*.]")
_PLACEABLE: Final = "\0"
"""Stands for one while a text is read: no file has this character."""


def read_fluent(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the patterns of messages and terms, and of each variant by itself. Lines of a text are joined."""
    for entry in FluentParser(with_spans=True).parse(text).body:
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
    words, copied = "", []
    for element in elements:
        assert element.span is not None
        if isinstance(element, ast.TextElement):
            words += _SPACE.sub(" ", _BREAK.sub(_KEPT, element.value)).replace(_KEPT, "\n")
        else:
            words += _PLACEABLE
            copied.append(text[element.span.start : element.span.end])
    first, last = elements[0].span, elements[-1].span
    assert first is not None
    assert last is not None
    items = list(_items(words, iter(copied)))
    yield Passage((first.start, last.end), encode=_begun, context="entry", items=items, write_text=_written)


def _items(words: str, copied: Iterator[str]) -> Iterator[Item]:
    """Yield the items of a text; what is copied stands between its words, or in its tags."""
    for item in plain_items(words):
        match item:
            case Words(found):
                for number, part in enumerate(found.split(_PLACEABLE)):
                    yield from [Object([next(copied)], is_word=True)] if number else []
                    yield from [Words(part)] if part else []
            case Object(pieces, is_break):
                yield Object([_whole(render(pieces), copied)], is_break)
            case Open(raw):
                yield Open(_whole(raw, copied))
            case Close(raw):
                yield Close(_whole(raw, copied))


def _whole(raw: str, copied: Iterator[str]) -> str:
    return str(regex.sub(_PLACEABLE, lambda _: next(copied), raw)).replace("\n", "\n    ")


def _written(text: str) -> str:
    return str(regex.sub("[{}]", _quoted, text))


def _begun(text: str) -> str:
    """Write a whole text: signs that begin something at the start of a line are quoted."""
    return str(_SIGN.sub(_quoted, text))


def _quoted(found: regex.Match[str]) -> str:
    return f'{{"{found[0]}"}}'
