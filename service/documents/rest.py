"""reStructuredText: paragraphs, headings and items by blank lines and indentation; code and other directives stay."""

from collections.abc import Generator, Iterator, Sequence
from typing import Final

import regex

from service.documents.paragraph import ReadOptions
from service.documents.passages import Passage, marked_items
from service.documents.tagged import Close, Item, Open, Words
from service.documents.text_lines import Line, joined, lines_of

_ADORNMENT: Final = regex.compile(r"\s*([!-/:-@\[-`{-~])\1{2,}\s*")
_TABLE: Final = regex.compile(r"\s*(?:[+|][-=+| ]|={2,}(?:\s+={2,})+\s*$)")
_DIRECTIVE: Final = regex.compile(r"\s*\.\.(?:\s+(?:\|[^|\n]+\|\s+)?(?P<name>[\w:.+-]+)::[ \t]*+(?P<rest>[^\n]*)|\s|$)")
_TRANSLATED: Final = frozenset(
    "note warning tip important hint attention caution danger error seealso admonition versionadded versionchanged "
    "deprecated topic sidebar rubric epigraph centered container only glossary".split()
)
"""Directives whose body, and their title, are text."""
_TITLED: Final = frozenset("admonition topic sidebar rubric centered".split())
_MARKS: Final = regex.compile(
    r"\s*+(?:(?:[-*+•]|\(?(?:[0-9]{1,3}|#|[A-Za-z])[.)]|:[^:\n]{1,60}:|\.\. \[[^\]\n]+\])\s++)*"
)
_MARK: Final = regex.compile(
    r"(?P<copied>``[^\n]{1,300}?``|(?::[\w.+-]{1,40}:)`[^`<>\n]{1,300}`|`[^`<>\n]{1,300}`:[\w.+-]{1,40}:"
    r"|(?<![\w|])\|[^\s|](?:[^|\n]{0,80}[^\s|])?\|_{0,2}|\[(?:\#?\w{1,40}|\*)\]_|::\s*\Z)"
    r"|(?P<open>(?::[\w.+-]{1,40}:)?`)(?P<text>[^`<>\n]{1,300}?)(?P<close>\s<[^<>`\n]{1,300}>`_{0,2}|`_{1,2})"
    r"|(?<![\w*])(?P<open>\*{1,2})(?![\s*])(?P<text>[^*\n]{1,300})(?<!\s)(?P<close>(?P=open))(?![\w*])"
)
"""Inline marks, which also stand in messages of documentation."""
_MARK_OF_FILE: Final = regex.compile(
    rf"{_MARK.pattern}|(?<![\w`|:./=%#&-])(?P<open>)(?P<text>[A-Za-z0-9](?:[\w.+-]{{0,80}}[A-Za-z0-9])?)(?P<close>_{{1,2}})(?![\w`])"
)
"""Texts of a document, in which `name_` is a reference."""
_NAME: Final = regex.compile(
    r"`([^`<>]{1,300})`_(?!_)|<([^`<>]{1,300})_>`|\b([\w.+-]{1,80})_(?!\w)|:ref:`(?:[^`<>]{0,300}<)?([^`<>]{1,300})>?`"
)
_TARGET: Final = regex.compile(r"^\s*\.\. _`?([^`\n]{1,300}?)`?:", regex.M)
_FIELD: Final = regex.compile(r"\s*:[^:\n]{1,60}:")
_OPTION: Final = regex.compile(r"\s*:[\w-]+:")


def read_rest(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the texts. Lines of a paragraph are joined. References still lead to targets and headings."""
    lines = lines_of(text)
    names = {_normal("".join(found)) for found in _NAME.findall(text)} - {*map(_normal, _TARGET.findall(text))}
    number = 0
    is_literal = False  # the last paragraph ended with `::`
    while number < len(lines):
        line = lines[number]
        directive = _DIRECTIVE.match(line.text)
        if line.text and directive is None and (heading := _heading(lines, number, names)) is not None:
            yield heading
            number += 3 if _ADORNMENT.fullmatch(line.text) else 2
        elif not line.text or _ADORNMENT.fullmatch(line.text) or _TABLE.match(line.text):
            number += 1
        elif directive is not None:
            number = yield from _directive(lines, number, directive)
        elif _FIELD.fullmatch(line.text):
            number += 1  # the name of a field whose text stands in the next lines
        elif is_literal and line.indent > 0:
            number = _body_end(lines, number - 1, line.indent - 1)
            is_literal = False
        else:
            end = _paragraph_end(lines, number)
            is_literal = lines[end - 1].text.endswith("::")
            marks = _MARKS.match(line.text)
            yield joined(lines[number:end], marks.end() if marks else 0, _items)
            number = end


def _directive(lines: Sequence[Line], number: int, found: regex.Match[str]) -> Generator[Passage, None, int]:
    """Read a directive or a comment; the number of the line behind what was read is returned."""
    if found["name"] not in _TRANSLATED:
        return _body_end(lines, number, lines[number].indent)
    if found["rest"] and (found["name"] in _TITLED or not found["rest"][0].isdigit()):
        start = lines[number].start + found.start("rest")
        yield Passage((start, start + len(found["rest"])), context="title", items=_items(found["rest"]))
    number += 1
    while number < len(lines) and _OPTION.match(lines[number].text):
        number += 1
    return number


def _body_end(lines: Sequence[Line], number: int, indent: int) -> int:
    """Return the line behind those that are blank, or indented deeper than the given indentation."""
    after = range(number + 1, len(lines))
    return next((each for each in after if lines[each].text and lines[each].indent <= indent), len(lines))


def _paragraph_end(lines: Sequence[Line], number: int) -> int:
    first, number = number, number + 1
    while number < len(lines):
        line = lines[number]
        if not line.text or _has_marks(line) or _ADORNMENT.fullmatch(line.text) or _DIRECTIVE.match(line.text):
            break
        if number == first + 1 and line.indent > lines[first].indent and not _has_marks(lines[first]):
            break  # the meaning of a term
        if number > first + 1 and line.indent != lines[first + 1].indent:
            break
        number += 1
    return number


def _has_marks(line: Line) -> bool:
    marks = _MARKS.match(line.text)
    return marks is not None and marks.end() > line.indent


def _heading(lines: Sequence[Line], number: int, names: set[str]) -> Passage | None:
    """Return the heading that begins at a line, with the lines of marks around it, which are as long as it is.

    One that has one of the names, to which something refers, gets it as a target.
    """
    has_overline = _ADORNMENT.fullmatch(lines[number].text) is not None
    title = number + has_overline
    if title + 1 >= len(lines) or not lines[title].text or _ADORNMENT.fullmatch(lines[title].text):
        return None
    under = lines[title + 1]
    if _ADORNMENT.fullmatch(under.text) is None or len(under.text) < len(lines[title].text.strip()):
        return None

    name = regex.sub("[`*|]", "", lines[title].text).strip()
    target = f".. _`{name}`:\n\n" if _normal(name) in names else ""
    names.discard(_normal(name))

    def written(text: str) -> str:
        marks = under.text[0] * max(len(under.text), len(text) + 2 * lines[title].indent)
        return target + "\n".join([*[marks] * has_overline, " " * lines[title].indent + text, marks])

    place = lines[number].start, under.start + len(under.text)
    return Passage(place, encode=written, context="heading", items=_items(lines[title].text.strip()))


def _normal(name: str) -> str:
    return " ".join(name.lower().split())


def _items(text: str) -> list[Item]:
    """Split a text of a document into items; what a translation calls otherwise still refers to its name."""
    items = marked_items(text, _MARK_OF_FILE)
    for opening, words, closing in zip(items, items[1:], items[2:], strict=False):
        if isinstance(opening, Open) and isinstance(words, Words) and isinstance(closing, Close):
            if closing.raw in ("_", "`_"):
                closing.raw = f" <{words.text}_>`_"
            if not opening.raw:
                opening.raw, opening.is_link, closing.raw = "`", True, closing.raw.replace("__", "`__")
    return items


def rest_items(text: str) -> list[Item]:
    """Split a text with marks of reStructuredText, or with tags of HTML, into items."""
    return marked_items(text, _MARK)
