"""XML documents to pieces, by a table of the elements that are paragraphs, runs and texts in each vocabulary."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import regex

from service.documents.fields import join_fields, source_of
from service.documents.paragraph import Kept, Piece, ReadOptions, render
from service.documents.passages import Passage, attribute_pieces, inline_paragraph, passage_pieces, plain_items
from service.documents.tagged import Close, Item, Object, Open, Run, Words
from service.documents.xml_text import XmlKind, XmlToken, check, escape_text, tokens, unescape

Untouched = Callable[[XmlToken], bool]

_HEADER_CODE: Final = regex.compile(r'(&(?:"[^"]*"|K[\w+-]{5,6}|[0-9]{1,3}|.))')
_NOTHING: Final = regex.compile(r"(?!)")
_LINE_END: Final = regex.compile(r"((?:_x000D_|\r)?\n|_x000D_)")


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The elements of an XML format, by names such as `w:p`. All others are copied.

    Inside a paragraph, an unnamed element is an object; paragraphs that lie in it are still translated.
    """

    namespaces: Mapping[str, str]
    """The short name of each namespace."""
    paragraphs: frozenset[str]
    runs: frozenset[str] = frozenset()
    """Elements that give one formatting to the text elements in them."""
    texts: frozenset[str] = frozenset()
    """Elements that hold only text; white space beside them is no text of a paragraph."""
    characters: Mapping[str, str] = field(default_factory=dict)
    """Elements of a run that stand for a character, and the character that the model reads."""
    wrappers: frozenset[str] = frozenset()
    """Elements that contain a part of a paragraph."""
    attributes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Attributes of elements whose values a reader sees, as they are spelled."""
    controls: regex.Pattern[str] = _NOTHING
    """Matches the properties of a wrapper that is an object: a box to check, a date, a list to choose from."""
    word: regex.Pattern[str] = _NOTHING
    """Matches the properties of a run that holds code: a word of its sentence that is copied."""
    link: regex.Pattern[str] = _NOTHING
    """Matches the properties of a run that is a link."""
    html: frozenset[str] = frozenset()
    """Paragraphs whose text may be HTML, escaped."""
    headers: frozenset[str] = frozenset()
    """Headers and footers of a sheet, with codes for their parts, formats and numbers."""
    links: frozenset[str] = frozenset()
    """The wrappers that are links."""
    properties: frozenset[str] = frozenset()
    """Elements that describe a run or a wrapper, as its first child."""
    breaks: frozenset[str] = frozenset()
    copied: frozenset[str] = frozenset()
    """Elements that are copied with their content."""
    is_untouched: Untouched = field(default=lambda token: False)
    """Returns True for another element that is copied with its content, by its attributes."""
    code: regex.Pattern[str] = _NOTHING
    """Matches the properties of a paragraph that holds code."""
    kept: Callable[[str], str] = field(default=lambda text: "")
    """Returns the reason why the text of a paragraph stays as it is; "" for one to translate."""
    languages: frozenset[str] = frozenset()
    """Elements whose text is the language of the document."""


def names(text: str) -> frozenset[str]:
    """Split the names of a vocabulary."""
    return frozenset(text.split())


def split_xml(text: str, options: ReadOptions, vocabulary: Vocabulary) -> Iterator[Piece]:
    """Split XML into pieces. Raises `InvalidRequest` if it is broken."""
    check(text)
    return _Reader(tokens(text, vocabulary.namespaces), vocabulary, options.target).read()


class _Inside:
    """The inside of a paragraph: its items, and its source."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.source: list[Piece] = []

    def add(self, raw: str, *items: Item) -> None:
        self.source.append(raw)
        self.items += items


class _Reader:
    def __init__(self, source: Iterator[XmlToken], vocabulary: Vocabulary, target: str) -> None:
        self._tokens = source
        self._vocabulary = vocabulary
        self._target = target

    def read(self, *, is_element: bool = False) -> Iterator[Piece]:
        """Yield the pieces up to the end of the text, or of the element that was opened last."""
        depth = 0
        for token in self._tokens:
            if token.kind is XmlKind.OPEN and self._is_copied(token):
                yield token.raw + self._raw()
            elif token.kind is XmlKind.OPEN and token.name in self._vocabulary.paragraphs:
                yield from self._paragraph(token)
            elif token.kind is XmlKind.OPEN and token.name in self._vocabulary.languages:
                content = self._raw()
                yield f"{token.raw}{self._target}</{token.spelled}>" if self._target else token.raw + content
            else:
                depth += token.step
                yield from self._tag(token)
                if depth < 0 and is_element:
                    return

    def _tag(self, token: XmlToken) -> list[Piece]:
        """Return a tag; values of attributes that a reader sees are paragraphs."""
        names = self._vocabulary.attributes.get(token.name)
        if not names or token.kind is XmlKind.CLOSE:
            return [token.raw]
        values = ((start, end) for name, start, end in token.places() if name in names)
        return attribute_pieces(token.raw, values, unescape)

    def _is_copied(self, token: XmlToken) -> bool:
        return token.name in self._vocabulary.copied or self._vocabulary.is_untouched(token)

    def _raw(self) -> str:
        """Take the rest of an element, without looking for paragraphs."""
        parts, depth = [], 1
        while depth:
            token = next(self._tokens)
            parts.append(token.raw)
            depth += token.step
        return "".join(parts)

    def _paragraph(self, token: XmlToken) -> Iterator[Piece]:
        inside = _Inside()
        closing = self._inline(inside)
        yield token.raw
        words = "".join(item.text for item in inside.items if isinstance(item, Words))
        is_code = self._vocabulary.code.search(source_of(inside.items[:1])) is not None
        if reason := "code" if is_code else self._vocabulary.kept(words):
            yield Kept(render(inside.source), reason)
        elif token.name in self._vocabulary.headers:
            parts = _HEADER_CODE.split(words)
            items: list[Item] = [
                Object([escape_text(part)], is_break=part in ("&L", "&C", "&R")) if number % 2 else Words(part)
                for number, part in enumerate(parts)
                if part
            ]
            yield from inline_paragraph(inside.source, items, escape_text)
        elif token.name in self._vocabulary.html and all(isinstance(item, Words) for item in inside.items):
            items = plain_items(words)
            description = Passage((0, 0), words, escape_text, items=items, has_references="<" in words)
            yield from passage_pieces(render(inside.source), description)
        else:
            yield from inline_paragraph(inside.source, join_fields(inside.items), escape_text)
        yield closing

    def _inline(self, inside: _Inside) -> str:
        """Read a paragraph or a wrapper up to its end tag, which is returned."""
        vocabulary = self._vocabulary
        opening = inside.items[-1] if inside.items and isinstance(inside.items[-1], Open) else None
        for token in self._tokens:
            if token.kind is XmlKind.CLOSE:
                return token.raw
            if token.kind is XmlKind.TEXT and (token.text.strip() or not vocabulary.texts):
                inside.add(token.raw, Words(token.text))
            elif token.kind is XmlKind.OPEN and token.name in vocabulary.texts:
                self._text(token, inside, Run())
            elif token.kind is XmlKind.OPEN and token.name in vocabulary.runs:
                self._run(token, inside)
            elif token.kind is XmlKind.OPEN and token.name in vocabulary.wrappers and not self._is_copied(token):
                self._wrapper(token, inside)
            else:
                is_property = opening is not None and token.name in vocabulary.properties
                pieces = self._object(token)
                inside.source += pieces
                if opening is not None and is_property:
                    opening.raw += render(pieces)
                    continue
                if not render(pieces).isspace():
                    inside.items.append(Object(pieces, is_break=token.name in vocabulary.breaks))
            opening = None
        raise AssertionError("the XML was checked")

    def _wrapper(self, token: XmlToken, inside: _Inside) -> None:
        begin, source = len(inside.items), len(inside.source)
        opening = Open(token.raw, is_link=token.name in self._vocabulary.links)
        inside.add(token.raw, opening)
        closing = self._inline(inside)
        inside.add(closing, Close(closing))
        if self._vocabulary.controls.search(opening.raw):
            inside.items[begin:] = [Object(inside.source[source:])]

    def _object(self, token: XmlToken) -> list[Piece]:
        if token.kind is not XmlKind.OPEN:
            return self._tag(token)
        return [token.raw + self._raw()] if self._is_copied(token) else [*self._tag(token), *self.read(is_element=True)]

    def _run(self, token: XmlToken, inside: _Inside) -> None:
        opening, closing = token.raw, f"</{token.spelled}>"
        inside.source.append(token.raw)
        for child in self._tokens:
            if child.kind is XmlKind.CLOSE:
                inside.source.append(child.raw)
                return
            if child.kind is XmlKind.OPEN and child.name in self._vocabulary.texts:
                self._text(child, inside, Run(opening, closing))
                continue
            if child.kind is XmlKind.EMPTY and child.name in self._vocabulary.characters:
                name = f"{child.spelled.rpartition(':')[0]}:t"
                last = inside.items[-1] if inside.items else None
                run = last.run if isinstance(last, Words) else _text_run(name, Run(opening, closing))
                inside.add(child.raw, Words(self._vocabulary.characters[child.name], run))
                continue
            pieces = self._object(child)
            inside.source += pieces
            if child.name in self._vocabulary.properties:
                opening += render(pieces)
            elif not render(pieces).isspace():
                is_break = child.name in self._vocabulary.breaks
                inside.items.append(Object([opening, *pieces, closing], is_break))

    def _text(self, token: XmlToken, inside: _Inside, run: Run) -> None:
        """Read a text element; its own tags become a part of the run."""
        words, raw = "", token.raw
        for child in self._tokens:
            raw += child.raw
            if child.kind is XmlKind.CLOSE:
                break
            words += child.text
        text_run = _text_run(token.spelled, run, keeps_space=token.name == "a:t")
        if self._vocabulary.word.search(run.opening):
            inside.add(raw, Object([run.opening, raw, run.closing], is_word=True))
            return
        inside.add(raw)
        if self._vocabulary.link.search(run.opening):
            text_run = text_run._replace(is_link=True)
        # In Word's texts a line end is white space.
        for number, part in enumerate([words] if token.name == "w:t" else _LINE_END.split(words)):
            if number % 2:
                inside.items.append(Object([part], is_break=True, is_character=True))
            elif part:
                inside.items.append(Words(part, text_run))


def _text_run(name: str, run: Run, *, keeps_space: bool = False) -> Run:
    """Return a run with its text element, marked to keep its white space unless it always does."""
    space = "" if keeps_space else ' xml:space="preserve"'
    return Run(f"{run.opening}<{name}{space}>", f"</{name}>{run.closing}")
