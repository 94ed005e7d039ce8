"""HTML to segments: block tags separate them, inline tags stay in their sentences as marks, the rest is copied."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, groupby, pairwise
from typing import Final

import regex

from service.text.markup.runs import copied_segment, split_run
from service.text.markup.source_map import OBJECT, Fragment, parse_text
from service.text.markup.tokenizer import VOID_ELEMENTS, Token, TokenKind, tokenize
from service.text.segment import Segment
from service.text.splitter import Splitter

_BLOCKS: Final = frozenset(
    "address article aside audio base blockquote body br button canvas caption center col colgroup dd details dialog "
    "dir div dl dt embed fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr "
    "html iframe legend li link main map menu meta nav noscript object ol optgroup option p param picture pre script "
    "search section select source style summary table tbody td template textarea tfoot th thead title tr track ul "
    "video xmp".split()
)
# Elements with code, formulas or drawings instead of language.
_COPIED: Final = frozenset("pre code kbd samp var svg math object template script style xmp".split())
_DRAWN: Final = frozenset({"title", "style", "script"})
_STANDALONE: Final = frozenset({"img", "input"})
"""Pictures and fields: without text before them, their attributes are read like those of a block.

A field whose attributes have text is always read so.
"""
_TEXT_ATTRIBUTES: Final = frozenset("alt title placeholder aria-label".split())
_BUTTONS: Final = frozenset("submit button reset".split())
_LABELLED: Final = frozenset("track option optgroup".split())
_OFFICE_TITLES: Final = frozenset({"header", "footer"})
"""Titles by which LibreOffice finds headers and footers in a page that it wrote."""
_FORMULAS: Final = ({"math", "inline"}, {"math", "display"}, {"katex"})
"""Classes of elements in which pandoc and KaTeX write formulas."""
_WHOLE: Final = regex.compile(
    r"(?<![\w>.,])(?:[A-Z][a-z]?(?=<sub>)|[B-HJ-Z]|[b-z]|[ckdm]m|\d[\d.,]*+(?:[ ](?=<sup>o))?+)"
    r"(?:<(su[bp])>(?:[0-9+\u2212-]{1,4}|o(?:[CFK]|(?=</sup>[CFK]\b)))</\1>(?:[A-Z][A-Za-z]{0,3}(?!\w))?)++"
    r"|<(a|b|em|i|span|strong)(?:\s[^<>]*+)?>(?=[^<]*-|\+)[+(]?\d[\d\s().-]{5,25}(?<=\d)</\2>"
)
"""A unit, a formula or a number with raised or lowered characters, where a longer word has the mark of a note; and an
element around a number with hyphens, such as that of a telephone."""

_NOTE_MARKS: Final = frozenset({"a", "sup"})
_SENTENCE_START: Final = regex.compile(r"\p{Lu}\p{Ll}|[AI]\b|\p{Lo}")
"""The beginning of a sentence; a single letter after a raised number may be a chemical element."""


def split_html(
    html: str, language: str, splitter: Splitter, ignored: Collection[str] = frozenset()
) -> Iterator[Segment]:
    """Split HTML lazily; the segments' texts joined are the HTML. Elements with the names in `ignored` are copied."""
    return splitter.merge_copied(_segments(html, language, splitter, ignored))


def split_attribute(text: str, language: str, splitter: Splitter) -> Iterator[Segment]:
    """Split the unescaped value of an attribute into segments with escaped text."""
    value = [Fragment(character, escape(character, quote=True)) for character in text]
    return splitter.merge_copied(split_run(value, language, splitter, encoding="attribute"))


def _segments(html: str, language: str, splitter: Splitter, ignored: Collection[str]) -> Iterator[Segment]:
    for run, tag in _runs(html, by_lines=splitter.splitting == "lines", ignored=ignored):
        yield from split_run([*_joined(run)], language, splitter)
        if tag is not None:
            yield from _block_tag(tag, language, splitter)


def _runs(
    html: str, *, by_lines: bool = False, ignored: Collection[str] = frozenset()
) -> Iterator[tuple[list[Fragment], Token | None]]:
    """Yield each run of text and inline tags, with the tag that ends it; the last run ends without one.

    The mark of a footnote ends a run without a tag, because it must not be joined to a word. With `by_lines`, the end
    of a line ends a run, too.
    """
    run: list[Fragment] = []
    has_text = has_letters = False
    for fragment in _fragments(tokenize(html), ignored):
        tag = fragment.tag
        if tag is not None and (tag.name in _BLOCKS or _stands_alone(tag, has_text=has_text)):
            yield run, tag
            run, has_text, has_letters = [], False, False
            continue
        if not has_letters and _SENTENCE_START.match(fragment.text) and (mark := _note_mark(run)):
            yield run[:mark], None
            run = run[mark:]
        for piece in _lines(fragment) if by_lines else [fragment]:
            run.append(piece)
            has_text = has_text or bool(piece.text.strip())
            has_letters = has_letters or any(map(str.isalpha, piece.text))
            if by_lines and piece.tag is None and piece.raw.endswith("\n"):
                yield run, None
                run, has_text, has_letters = [], False, False
    yield run, None


def _joined(run: Sequence[Fragment]) -> Iterator[Fragment]:
    """Yield the fragments of a run with each formula as one, which is copied."""
    starts = [*accumulate((len(fragment.raw) for fragment in run), initial=0)]
    html = "".join(fragment.raw for fragment in run)
    borders = [place for found in _WHOLE.finditer(html) for place in found.span()]
    parts: list[tuple[int, Fragment]] = []
    for fragment, (start, end) in zip(run, pairwise(starts), strict=True):
        is_divisible = fragment.tag is None and len(fragment.raw) == len(fragment.text)
        inside = borders[bisect_right(borders, start) : bisect_left(borders, end)] if is_divisible else []
        for first, last in pairwise([start, *inside, end]):
            part = slice(first - start, last - start)
            parts.append((first, Fragment(fragment.text[part], fragment.raw[part]) if inside else fragment))
    for number, group in groupby(parts, lambda part: bisect_right(borders, part[0])):
        fragments = [fragment for _, fragment in group]
        if number % 2:
            yield Fragment(OBJECT, "".join(fragment.raw for fragment in fragments))
        else:
            yield from fragments


def _stands_alone(tag: Token, *, has_text: bool) -> bool:
    return (tag.name in _STANDALONE and not has_text) or (tag.name == "input" and any(_texts(tag)))


def _note_mark(run: Sequence[Fragment]) -> int:
    """Return how many fragments of a run without letters are the mark of a footnote, such as `<sup>1</sup>`."""
    tags = [fragment.tag for fragment in run]
    end = len(tags)
    while end and (tag := tags[end - 1]) is not None and tag.kind is TokenKind.OPEN:
        end -= 1
    last = tags[end - 1] if end else None
    is_mark = last is not None and last.kind is TokenKind.CLOSE and any(tag and tag.name in _NOTE_MARKS for tag in tags)
    return end if is_mark and any(fragment.text.strip() for fragment in run) else 0


def _lines(fragment: Fragment) -> Iterator[Fragment]:
    """Yield the lines of a text; a tag, a copied element and a character reference are one."""
    if fragment.tag is not None or len(fragment.raw) != len(fragment.text):
        yield fragment
        return
    done = 0
    for line in fragment.raw.splitlines(keepends=True):
        yield Fragment(fragment.text[done : done + len(line)], line)
        done += len(line)


@dataclass
class _Element:
    """A copied element, or a translated element inside of a copied one."""

    name: str
    is_copied: bool
    depth: int = 1
    """The number of open elements with this name: the element itself, and those in it."""


def _fragments(tokens: Iterable[Token], ignored: Collection[str]) -> Iterator[Fragment]:
    """Yield the fragments of texts, each tag as one, and each copied element with its content as one."""
    elements: list[_Element] = []
    copied: list[Token] = []
    for token in _with_fields(tokens):
        # An inline element that is never closed ends with its block. Drawings have titles, styles and scripts, too.
        is_inside = elements and elements[-1].name == "svg" and token.name in _DRAWN
        if copied and elements[-1].name not in _BLOCKS and token.name in _BLOCKS and not is_inside:
            yield _copied_fragment(copied, elements.pop().name)
            copied = []
        opened = _opened(token, elements, ignored)
        if opened is not None and not opened.is_copied and copied:
            yield _copied_fragment(copied, elements[-1].name)
            copied = []
        is_copied = (opened or elements[-1]).is_copied if opened or elements else False
        if is_copied:
            copied.append(token)
        elif token.kind is TokenKind.TEXT:
            yield from parse_text(token.raw)
        else:
            yield Fragment("", token.raw, token)
        if opened is not None:
            elements.append(opened)
        elif elements and token.name == elements[-1].name:
            elements[-1].depth += 1 if token.kind is TokenKind.OPEN else -1
            if not elements[-1].depth and elements.pop().is_copied:
                yield _copied_fragment(copied, token.name)
                copied = []
    if copied:
        yield _copied_fragment(copied, elements[-1].name)


def _with_fields(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens, and of a text field its lines, whose ends stay. Markup in a field is code."""
    name = ""
    for token in tokens:
        if token.kind is TokenKind.OTHER and name == "textarea" and "<" not in token.raw and "&lt;" not in token.raw:
            for number, line in enumerate(regex.split(r"(\r?\n|\r)", token.raw)):
                yield Token(TokenKind.OTHER, line, "br") if number % 2 else Token(TokenKind.TEXT, line)
        else:
            yield token
        name = token.name


def _opened(token: Token, elements: Sequence[_Element], ignored: Collection[str]) -> _Element | None:
    """Return the copied element that a tag opens, or the translated element that it opens inside of a copied block."""
    if not (elements and elements[-1].is_copied):
        return _Element(token.name, is_copied=True) if _opens_copied_element(token, ignored) else None
    is_inside = elements[-1].name in _BLOCKS and _is_translated(token)
    return _Element(token.name, is_copied=False) if is_inside else None


def _is_translated(tag: Token) -> bool:
    """Return True for the tag of a translated element inside of a copied one."""
    if tag.kind is not TokenKind.OPEN or tag.name in VOID_ELEMENTS or "translate" not in tag.raw:
        return False
    return any(name == "translate" and tag.raw[start:end].lower() == "yes" for name, start, end in tag.attributes())


def _opens_copied_element(tag: Token, ignored: Collection[str]) -> bool:
    if tag.kind is not TokenKind.OPEN or tag.name in VOID_ELEMENTS:
        return False
    if tag.name in _COPIED or tag.name in ignored:
        return True
    values = {name: tag.raw[start:end].lower() for name, start, end in tag.attributes()}
    classes = {*values.get("class", "").split()}
    is_formula = any(formula <= classes for formula in _FORMULAS)
    return values.get("translate") == "no" or "notranslate" in classes or is_formula


def _copied_fragment(content: Sequence[Token], name: str) -> Fragment:
    raw = "".join(token.raw for token in content)
    return Fragment("", raw, Token(TokenKind.OTHER, raw, name)) if name in _BLOCKS else Fragment(OBJECT, raw)


def _block_tag(tag: Token, language: str, splitter: Splitter) -> Iterator[Segment]:
    """Yield a block tag as copied segments, and the text in its attributes as translated ones."""
    raw, done = tag.raw, 0
    for start, end in _texts(tag):
        yield copied_segment(raw[done:start])
        value = list(parse_text(raw[start:end]))
        yield from split_run(value, language, splitter, encoding="attribute")
        done = end
    yield copied_segment(raw[done:])


def _texts(tag: Token) -> Iterator[tuple[int, int]]:
    """Yield the spans of a tag's values that a reader sees."""
    spans = [*tag.attributes()] if tag.kind is TokenKind.OPEN else []
    values = {name: tag.raw[start:end].lower() for name, start, end in spans}
    is_office_title = tag.name == "div" and values.get("title") in _OFFICE_TITLES
    is_button = tag.name == "input" and values.get("type") in _BUTTONS
    for name, start, end in spans:
        is_text = (name in _TEXT_ATTRIBUTES and not is_office_title) or (name == "value" and is_button)
        is_text = is_text or (name == "label" and tag.name in _LABELLED)
        if is_text and tag.raw[start - 1] in "\"'":
            yield start, end


def split_blocks(html: str) -> Iterator[tuple[str, int]]:
    """Cut HTML lazily where `split_html` starts anew: yield each part, and the characters of text in it.

    The parts joined are the HTML, and their translations joined are the translation of the HTML. A part without
    letters has 0 characters: `split_html` would copy it.
    """
    for run, tag in _runs(html):
        text = "".join(fragment.text for fragment in run).replace(OBJECT, "")
        yield "".join(fragment.raw for fragment in run), _characters(text)
        if tag is not None:
            yield tag.raw, _characters("".join(tag.raw[start:end] for start, end in _texts(tag)))


def _characters(text: str) -> int:
    return len(text.strip()) if any(map(str.isalpha, text)) else 0
