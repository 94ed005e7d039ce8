"""The inside of a paragraph as HTML with inline tags, and back.

Runs with unusual formatting and wrappers such as a comment's range become elements `<g1>`, links `<a id="2">`, objects
such as footnotes `<x3/>`, and line breaks and tabs, which end a sentence, `<br id="4">`. The most frequent
formatting of a paragraph needs no tag.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape, unescape
from typing import Final, NamedTuple

import regex

from service.documents.paragraph import Paragraph, Piece, has_letters, render
from service.text.markup.tokenizer import Token, TokenKind, tokenize

_NUMBER: Final = regex.compile(r'<(?:[gx]|(?:br|a) id=")([0-9]{1,9})["/>]')


class Run(NamedTuple):
    """The text before and after the words of one formatting."""

    opening: str = ""
    closing: str = ""


class Words(NamedTuple):
    """Words of one formatting, unescaped."""

    text: str
    run: Run = Run()


@dataclass
class Open:
    """The beginning of a wrapper, which may contain everything that a paragraph contains."""

    raw: str
    is_link: bool = False
    """True if it must contain a word: nobody can follow an empty link."""


@dataclass
class Close:
    """The end of the innermost wrapper."""

    raw: str


@dataclass
class Object:
    """An object among the words, such as a picture; it may contain paragraphs."""

    pieces: Sequence[Piece]
    is_break: bool = False
    """True if a sentence ends here."""
    is_character: bool = False
    """True for an object among the characters of its run, such as a line end in a cell."""


Item = Words | Open | Close | Object


def inline_paragraph(source: Sequence[Piece], items: Sequence[Item], write_text: Callable[[str], str]) -> list[Piece]:
    """Make a paragraph of its parts, or return the source if there is nothing to translate.

    `write_text` converts plain text to that of the document.
    """
    words = "".join(item.text for item in items if isinstance(item, Words))
    if not has_letters(words):
        return list(source)
    first = next(number for number, item in enumerate(items) if not _is_outside(item))
    last = next(number for number in range(len(items), 0, -1) if not _is_outside(items[number - 1]))
    tagged = _Tagged(items[first:last], write_text)

    def write(translation: str) -> str:
        inside = tagged.write(translation)
        return _objects(items[:first]) + inside + _objects(items[last:])

    return [Paragraph(source, tagged.markup, len(words), write)]


def _is_outside(item: Item) -> bool:
    return isinstance(item, Object) and not item.is_character


def string_paragraph(
    source: str,
    text: str,
    encode: Callable[[str], str],
    items: Sequence[Item] | None = None,
    *,
    has_references: bool = False,
    is_in_place: bool = True,
) -> list[Piece]:
    """Make a paragraph of a plain text, or return its source if there is nothing to translate.

    `encode` converts the whole translation to the text of the document. `items` are those of `plain_items` by default;
    with `has_references` their words have character references, and so does the translation.
    """
    items = plain_items(text) if items is None else items
    if has_references:
        items = [Words(unescape(item.text), item.run) if isinstance(item, Words) else item for item in items]
    write_text = partial(escape, quote=False) if has_references else str
    found = next(iter(inline_paragraph([text], items, write_text)), "")
    if isinstance(found, str):
        return [source]
    write = found.write

    def encoded(translation: str) -> str:
        return encode(write(translation))

    return [Paragraph([source], found.markup, found.characters, encoded, is_in_place)]


def plain_items(text: str) -> list[Item]:
    """Split a plain text, which may contain tags of HTML, into words, line breaks and tags."""
    items: list[Item] = []
    open_names: list[str] = []
    tokens = list(tokenize(text))
    closed = Counter(token.name for token in tokens if token.kind is TokenKind.CLOSE)
    for token in tokens:
        if token.kind is TokenKind.TEXT:
            items += _lines(token.raw)
        elif token.kind is TokenKind.OPEN and closed[token.name] > open_names.count(token.name):
            open_names.append(token.name)
            items.append(Open(token.raw))
        elif token.kind is TokenKind.CLOSE and open_names[-1:] == [token.name]:
            open_names.pop()
            items.append(Close(token.raw))
        else:
            items.append(Object([token.raw], is_break=token.name in ("br", "p", "div", "li")))
    if open_names:  # not nested: each tag is an object
        return [Object([item.raw]) if isinstance(item, Open | Close) else item for item in items]
    return items


def _lines(text: str) -> list[Item]:
    parts = regex.split(r"(\r\n|[\n\r\t\v\f])", text)
    items = [Object([part], is_break=True) if number % 2 else Words(part) for number, part in enumerate(parts)]
    return [item for item in items if item != Words("")]


def _objects(items: Iterable[Item]) -> str:
    return "".join(render(item.pieces) for item in items if isinstance(item, Object))


class _Tagged:
    """A paragraph's items as HTML, and the item of each tag."""

    def __init__(self, items: Sequence[Item], write_text: Callable[[str], str]) -> None:
        self._write_text = write_text
        self._usual = _most_frequent_run(items)
        self._runs: dict[str, Run] = {}
        self._wrappers: dict[str, tuple[Open, Close]] = {}
        self._objects: dict[str, Object] = {}
        self.markup = "".join(self._tags(items))

    def _tags(self, items: Sequence[Item]) -> Iterable[str]:
        run: tuple[str, Run] | None = None  # the element of the words before
        wrappers: list[tuple[str, Open]] = []
        for number, item in enumerate(items, 1):
            if run is not None and (isinstance(item, Open | Close) or (isinstance(item, Words) and item.run != run[1])):
                yield f"</{run[0]}>"
                run = None
            name = f"g{number}"
            match item:
                case Words(text):
                    if run is None and item.run != self._usual:
                        self._runs[name], run = item.run, (name, item.run)
                        yield f"<{name}>"
                    yield escape(text, quote=False)
                case Open():
                    name = f"a{number}" if item.is_link else name
                    wrappers.append((name, item))
                    yield f'<a id="{number}">' if item.is_link else f"<{name}>"
                case Close():
                    name, opening = wrappers.pop()
                    self._wrappers[name] = opening, item
                    yield "</a>" if opening.is_link else f"</{name}>"
                case Object():
                    self._objects[str(number)] = item
                    yield f'<br id="{number}">' if item.is_break else f"<x{number}/>"
        if run is not None:
            yield f"</{run[0]}>"

    def write(self, translation: str) -> str:
        """Return the text of the document for a translation of `markup`.

        Elements that overlap are closed and opened again. An object that the translation lost stands at the end.
        """
        written: list[str] = []
        missing = dict(self._objects)
        opened: list[str] = []
        words = ""

        def flush() -> None:
            nonlocal words
            if words:
                run = next((self._runs[name] for name in reversed(opened) if name in self._runs), self._usual)
                written.append(run.opening + self._write_text(words) + run.closing)
                words = ""

        for token in tokenize(translation):
            name = f"a{_number(token)}" if token.name == "a" else token.name
            if token.kind is TokenKind.TEXT:
                words += unescape(token.raw)
                continue
            if (character := missing.get(_number(token))) is not None and character.is_character:
                words += render(missing.pop(_number(token)).pieces)
                continue
            flush()
            if token.kind is TokenKind.CLOSE:
                self._close(token.name, opened, written)
            elif name in self._wrappers or name in self._runs:
                opened.append(name)
                self._open([name], written)
            elif found := missing.pop(_number(token), None):
                written.append(render(found.pieces))
        flush()
        for name in reversed(opened):
            self._end(name, written)
        return "".join(written) + _objects(filter(_is_outside, missing.values()))

    def _close(self, name: str, opened: list[str], written: list[str]) -> None:
        """Close an element; elements that were opened in it are closed first, and opened again afterwards."""
        places = [place for place, each in enumerate(opened) if each == name or (name == "a" and each[0] == "a")]
        if places:
            inner = opened[places[-1] + 1 :]
            for each in reversed(opened[places[-1] :]):
                self._end(each, written)
            self._open(inner, written)
            del opened[places[-1]]

    def _open(self, names: Iterable[str], written: list[str]) -> None:
        written += [self._wrappers[name][0].raw for name in names if name in self._wrappers]

    def _end(self, name: str, written: list[str]) -> None:
        """Write the end of an element, or take back its beginning if there is nothing in it."""
        if name not in self._wrappers:
            return
        opening, closing = self._wrappers[name]
        if written[-1] == opening.raw:
            written.pop()
        else:
            written.append(closing.raw)


def _number(token: Token) -> str:
    found = _NUMBER.match(token.raw)
    return found[1] if found else ""


def _most_frequent_run(items: Iterable[Item]) -> Run:
    characters: Counter[Run] = Counter()
    for item in items:
        if isinstance(item, Words):
            characters[item.run] += len(item.text)
    return characters.most_common(1)[0][0]
