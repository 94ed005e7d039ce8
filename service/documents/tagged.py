"""The inside of a paragraph as HTML with inline tags, and back.

Runs with unusual formatting and wrappers such as a comment's range become elements `<g1>`, links `<a id="2">`, objects
such as footnotes `<x3/>`, and line breaks and tabs, which end a sentence, `<br id="4">`. The most frequent
formatting of a paragraph needs no tag.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape, unescape
from typing import Final, NamedTuple

import regex

from service.documents.paragraph import Piece, render
from service.text.markup.tokenizer import Token, TokenKind, tokenize

_NUMBER: Final = regex.compile(r'<(?:[gx]|(?:br|a|code) id=")([0-9]{1,9})["/>]')
_SPACED: Final = regex.compile(
    r"[[\w,;:.!?)\]}%»”]--[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}]]", regex.V1
)
"""A character of a script that puts spaces between words, beside which a space may be missing."""


_SOFT_HYPHEN: Final = "\u00ad"


class Run(NamedTuple):
    """The text before and after the words of one formatting."""

    opening: str = ""
    closing: str = ""
    is_link: bool = False


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
    """The end of the innermost wrapper; after `raw` it may have further pieces, such as the title of a link."""

    raw: str
    pieces: Sequence[Piece] = ()

    def written(self) -> str:
        return self.raw + render(self.pieces)


@dataclass
class Object:
    """An object among the words, such as a picture; it may contain paragraphs."""

    pieces: Sequence[Piece]
    is_break: bool = False
    """True if a sentence ends here."""
    is_word: bool = False
    """True if it is read as a word of its sentence, such as a name of a program."""
    is_character: bool = False
    """True for an object among the characters of its run, such as a line end in a cell."""


Item = Words | Open | Close | Object


def is_outside(item: Item) -> bool:
    """Return True for an object that stays where it is if it is at an edge of the paragraph."""
    return isinstance(item, Object) and not item.is_character and not item.is_word


def written_objects(items: Iterable[Item]) -> str:
    return "".join(render(item.pieces) for item in items if isinstance(item, Object))


class Tagged:
    """A paragraph's items as HTML, and the item of each tag."""

    def __init__(self, items: Sequence[Item], write_text: Callable[[str], str]) -> None:
        self._write_text = write_text
        self._usual = _most_frequent_run(items)
        self._runs: dict[str, Run] = {}
        self._wrappers: dict[str, tuple[Open, Close]] = {}
        self._objects: dict[str, Object] = {}
        self._spaces = {str(number): _spaces(items, number - 1) for number in range(1, len(items) + 1)}
        self._has_double_spaces = "  " in "".join(item.text for item in items if isinstance(item, Words))
        self.markup = "".join(self._tags(items))

    def _tags(self, items: Sequence[Item]) -> Iterable[str]:
        run: tuple[str, Run] | None = None  # the element of the words before
        wrappers: list[tuple[str, Open]] = []
        for number, item in enumerate(items, 1):
            if run is not None and (isinstance(item, Open | Close) or (isinstance(item, Words) and item.run != run[1])):
                yield _end_tag(*run)
                run = None
            name = f"g{number}"
            match item:
                case Words(text):
                    if run is None and item.run != self._usual:
                        name = f"a{number}" if item.run.is_link else name
                        self._runs[name], run = item.run, (name, item.run)
                        yield f'<a id="{number}">' if item.run.is_link else f"<{name}>"
                    yield escape(text.replace(_SOFT_HYPHEN, ""), quote=False)
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
                    yield _object_tag(number, item)
        if run is not None:
            yield _end_tag(*run)

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

        for token in nested(self._respaced(tokenize(translation))):
            number = _number(token)
            if token.kind is TokenKind.TEXT:
                words += unescape(token.raw)
                continue
            if number in missing and missing[number].is_character:
                words += render(missing.pop(number).pieces)
                continue
            flush()
            if token.kind is TokenKind.CLOSE:
                self._end(opened.pop(), written)
            elif found := missing.pop(number, None):
                written.append(render(found.pieces))
            if is_around_words(token):
                name = f"a{number}" if token.name == "a" else token.name
                opened.append(name)
                if name in self._wrappers:
                    written.append(self._wrappers[name][0].raw)
        flush()
        return "".join(written) + written_objects(each for each in missing.values() if not each.is_character)

    def _respaced(self, tokens: Iterable[Token]) -> Iterator[Token]:
        """Yield the tokens of a translation with as many spaces between words and objects as the source has."""
        last = ""  # the character before
        is_needed = False
        for token in tokens:
            text = token.raw
            if token.kind is TokenKind.TEXT:
                if not self._has_double_spaces:
                    text = regex.sub(r" {2,}+", " ", text)
                    text = text[1:] if text[:1] == last == " " else text
                if is_needed and text[:1].isalnum() and _SPACED.match(text):
                    text = f" {text}"
                yield Token(TokenKind.TEXT, text)
                last, is_needed = text[-1:] or last, False
                continue
            before, is_after = self._spaces.get(_number(token), (False, False))
            if before and _SPACED.match(last):
                yield Token(TokenKind.TEXT, " ")
            if _number(token) in self._objects:
                last, is_needed = "", is_after
            yield token

    def _end(self, name: str, written: list[str]) -> None:
        """Write the end of an element, or take back its beginning if there is nothing in it."""
        if name not in self._wrappers:
            return
        opening, closing = self._wrappers[name]
        if written[-1] == opening.raw:
            written.pop()
        else:
            written.append(closing.written())


def is_around_words(token: Token) -> bool:
    """Return True for the beginning of an element that may have words in it."""
    return token.kind is TokenKind.OPEN and not token.is_empty


def nested(tokens: Iterable[Token], lost: regex.Pattern[str] | None = None) -> Iterator[Token]:
    """Yield tokens with end tags where they fit.

    An element that crosses the end of another is closed with it and opened again behind it, without the attributes
    that `lost` matches.
    """
    opened: list[Token] = []
    for token in tokens:
        if is_around_words(token):
            opened.append(token)
            yield token
        elif token.kind is not TokenKind.CLOSE:
            yield token
        elif any(each.name == token.name for each in opened):
            place = max(number for number, each in enumerate(opened) if each.name == token.name)
            yield from map(_end_of, reversed(opened[place + 1 :]))
            yield token
            opened[place:] = opened[place + 1 :]
            yield from (each._replace(raw=lost.sub("", each.raw)) if lost else each for each in opened[place:])
    yield from map(_end_of, reversed(opened))


def _end_of(token: Token) -> Token:
    return Token(TokenKind.CLOSE, f"</{token.name}>", token.name)


def _end_tag(name: str, run: Run) -> str:
    return "</a>" if run.is_link else f"</{name}>"


def _object_tag(number: int, item: Object) -> str:
    if item.is_break:
        return f'<br id="{number}">'
    return f'<code id="{number}"></code>' if item.is_word else f"<x{number}/>"


def _spaces(items: Sequence[Item], number: int) -> tuple[bool, bool]:
    """Return whether there is a space before an object, and after it."""
    item = items[number]
    if not isinstance(item, Object) or item.is_break:
        return False, False
    before = items[number - 1] if number else None
    after = items[number + 1] if number + 1 < len(items) else None
    return (
        isinstance(before, Words) and before.text[-1:].isspace(),
        isinstance(after, Words) and after.text[:1].isspace(),
    )


def _number(token: Token) -> str:
    found = _NUMBER.match(token.raw)
    return found[1] if found else ""


def _most_frequent_run(items: Iterable[Item]) -> Run:
    characters: Counter[Run] = Counter()
    for item in items:
        if isinstance(item, Words):
            characters[item.run] += len(item.text)
    return characters.most_common(1)[0][0]
