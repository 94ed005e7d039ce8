"""AsciiDoc: paragraphs, headings, items and cells by their lines; code and the like stay."""

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Final

import regex

from service.documents.heading_anchors import anchor_key
from service.documents.paragraph import ReadOptions
from service.documents.passages import Passage, marked_items
from service.documents.tagged import Item
from service.documents.text_lines import Line, joined, lines_of

_VERBATIM: Final = regex.compile(r"-{4,}|\.{4,}|\+{4,}|/{4,}|`{3,}\S*|[,:]===+")
_DELIMITER: Final = regex.compile(rf"{_VERBATIM.pattern}|={{4,}}|\*{{4,}}|_{{4,}}|--|(?P<table>[|!]===+)")
_ATTRIBUTES: Final = regex.compile(
    r"\[(?:(?P<code>(?:source|listing|literal|verse|stem|latexmath|asciimath|pass|plantuml|mermaid|ditaa|graphviz)\b)"
    r"|[^\]\n]*+)[^\n]*+(?<=\])"
)
_COPIED: Final = regex.compile(r"//|:!?[\w-]+!?:(?:\s|$)|[\w-]+::(?!\s|$)|'{3,}$|<<<$|\+$|(?:---|\*\*\*)$")
"""Comments, attributes, macros, rules, breaks of pages and joints of items."""
_MARKS: Final = regex.compile(
    r"(?P<heading>={1,6}|\#{1,6})\s+|(?P<title>\.)(?=[^\s.])"
    r"|\s*(?P<item>(?:[*.-]{1,6}|\d+\.|[A-Za-z]\.|<(?:\d+|\.)>)\s+(?:\[[ xX*]\]\s+)?)"
    r"|(?:NOTE|TIP|IMPORTANT|WARNING|CAUTION):\s+"
)
_TERM: Final = regex.compile(r"\s*(?P<term>\S.*?)(?::{2,4}|;;)(?:\s+|$)")
_ALTERNATIVE: Final = regex.compile(r"image::[^\s\[]+\[(?P<text>[^\],=\"]+)")
_BORDERS: Final = {
    sign: regex.compile(rf"(?<!\\)(?:(?<![^\s|])(?:[\d.]+[+*])?[<^>.]{{0,3}}(?P<style>[a-z]?))?{regex.escape(sign)}")
    for sign in "|!"
}
"""The beginning of a cell, with its format, by the sign with which its table begins."""
_UNDERLINE: Final = regex.compile(r"([=~^+-])\1+")
_MARK: Final = regex.compile(
    r"(?P<copied>`[^`\n]{1,300}`|\+{1,3}[^\s+][^+\n]{0,300}\+{1,3}|\{[\w:-]{1,80}\}(?![^\s\[\]]{0,200}\[)|<<[^<>,\n]{1,200}>>|\[\[[^\]\n]{1,100}\]\]"
    r"|\({2,3}[^()\n]{1,200}\){2,3}|\b(?!https?:|link:|xref:|mailto:|footnote:)[a-z]{2,20}:[^\s\[\]]{0,200}\[[^\]\n]{0,500}\]"
    r"|\^[^\s^]{1,40}\^|~[^\s~]{1,40}~|\b(?:https?://|link:|xref:)[^\s\[\]<>]{1,500}\[\])"
    r"|(?P<open>(?:\b(?:link|xref|mailto):|\bhttps?://|\{[\w-]{1,80}\})[^\s\[\]]{0,500}\[)(?P<text>[^\]\n]{1,300})(?P<close>\])"
    r"|(?P<note>\bfootnote:[\w-]{0,60}\[)(?P<text>[^\]\n]{1,1000})(?P<close>\])"
    r"|(?P<open><<[^<>,\n]{1,200},\s*)(?P<text>[^<>\n]{1,300})(?P<close>>>)"
    r"|(?P<open>[\"']`)(?P<text>(?:[^`\n]|`(?![\"'])){1,500}?)(?P<close>`[\"'])"
    r"|(?<![\w*_#])(?P<open>(?:\[[^\]\n]{1,60}\])?(?P<mark>\*{1,2}|_{1,2}|\#{1,2}))(?![\s*_#])(?P<text>[^\n]{1,300}?)"
    r"(?<!\s)(?P<close>(?P=mark))(?![\w*_#])"
)

_REFERENCE: Final = regex.compile(
    r"<<\#?(?P<id>[^<>,\n\#]{1,200})(?:,[^<>\n]*)?>>|\b(?:xref:\#?|link:\#)(?P<id>[^\s\[\]\#]{1,200})\["
)
_ANCHOR: Final = regex.compile(
    r"\[\[(?P<id>[^\[\],\n]{1,200}+)(?:,[^\[\]\n]{0,300}+)?\]\]"
    r"|^\[[^\]\n]{0,300}?(?:\#|\bid=\"?)(?P<id>[^\],.%\"\n]{1,200}+)",
    regex.M,
)
_NEAR: Final = 300
"""Characters before a heading that may give it an anchor."""
_ID: Final = regex.compile(r"[\p{L}_:][\w:.-]*")


def read_asciidoc(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the texts. Lines of a paragraph are joined. A heading to which a reference leads keeps its old anchor."""
    given = {found["id"] for found in _ANCHOR.finditer(text)}
    wanted = {anchor_key(found["id"]): found["id"] for found in _REFERENCE.finditer(text) if found["id"] not in given}
    for passage in _read(lines_of(text)):
        start, end = passage.place
        begin = text.rfind("\n", 0, start) + 1
        is_heading = passage.context == "heading"
        name = wanted.pop(anchor_key(text[start:end].partition("\n")[0]), "") if is_heading else ""
        if name and not _ANCHOR.search(text[max(begin - _NEAR, 0) : begin].rpartition("\n\n")[2]):
            # A reference may also name the words of the heading.
            anchor = name if _ID.fullmatch(name) else "_" + regex.sub(r"\W+", "_", name.lower()) + f",{name}"
            write = partial(_behind, f"[[{anchor}]]\n{text[begin:start]}", passage.encode)
            passage = passage._replace(place=(begin, end), encode=write)
        yield passage


def _behind(before: str, encode: Callable[[str], str], title: str) -> str:
    return before + encode(title)


def _read(lines: Sequence[Line]) -> Iterator[Passage]:
    number = 0
    is_code = False  # so say the attributes of the next block
    while number < len(lines):
        line = lines[number]
        delimiter, attributes = _DELIMITER.fullmatch(line.text), _ATTRIBUTES.fullmatch(line.text)
        if delimiter is not None and (is_code or delimiter["table"] or _VERBATIM.fullmatch(line.text)):
            end = _after_block(lines, number)
            if delimiter["table"] and not is_code:
                yield from _cells(lines[number + 1 : end - 1], _BORDERS[line.text[0]])
            number, is_code = end, False
        elif attributes is not None:
            is_code = is_code or attributes["code"] is not None
            number += 1
        elif not line.text or delimiter is not None or _COPIED.match(line.text):
            if picture := _ALTERNATIVE.match(line.text):
                place = line.start + picture.start("text"), line.start + picture.end("text")
                yield Passage(place, picture["text"], context="attribute")
            is_code = is_code and bool(line.text)
            number += 1
        elif (is_code and not line.text.startswith(".")) or (line.indent and not _is_item(line)):
            while number < len(lines) and lines[number].text:
                number += 1
        else:
            number = yield from _text(lines, number)


def _after_block(lines: Sequence[Line], number: int) -> int:
    """Return the number of the line after a block with a line of marks at its beginning and its end."""
    end = "```" if lines[number].text.startswith("```") else lines[number].text
    return next((after for after in range(number + 1, len(lines)) if lines[after].text == end), len(lines)) + 1


def _is_item(line: Line) -> bool:
    marks = _MARKS.match(line.text)
    return (marks is not None and marks["item"] is not None) or _TERM.match(line.text) is not None


def _ends_paragraph(line: Line) -> bool:
    is_block = _DELIMITER.fullmatch(line.text) or _ATTRIBUTES.fullmatch(line.text) or _COPIED.match(line.text)
    return not line.text or bool(is_block) or _is_item(line)


def _text(lines: Sequence[Line], number: int) -> Generator[Passage, None, int]:
    """Read a paragraph, an item or a heading; the number of the line behind it is returned."""
    line = lines[number]
    marks, term = _MARKS.match(line.text), _TERM.match(line.text)
    under = lines[number + 1].text if number + 1 < len(lines) else ""
    if marks is None and _UNDERLINE.fullmatch(under) and abs(len(under) - len(line.text)) < 2:
        place = line.start, lines[number + 1].start + len(under)
        yield Passage(place, encode=partial(_underlined, sign=under[0]), context="heading", items=_items(line.text))
        return number + 2
    if marks is not None and (marks["heading"] or marks["title"]):
        yield joined([line], marks.end(), _items, "heading" if marks["heading"] else "title")
        number += 1
        while marks["heading"] == "=" and number < len(lines) and lines[number].text:
            number += 1  # authors and attributes of the document
        return number
    begin = marks.end() if marks else line.indent
    if term is not None:
        yield Passage((line.start + term.start("term"), line.start + term.end("term")), items=_items(term["term"]))
        begin = term.end()
        if begin == len(line.text):
            number += 1
            if number == len(lines) or _ends_paragraph(lines[number]):
                return number
            begin = lines[number].indent
    end = next((after for after in range(number + 1, len(lines)) if _ends_paragraph(lines[after])), len(lines))
    while number < end:
        broken = next((at for at in range(number, end - 1) if lines[at].text.endswith(" +")), end - 1)
        last = lines[broken]
        part = [*lines[number:broken], Line(last.start, last.text.removesuffix(" +"))]
        yield joined(part, begin, _items)
        number = broken + 1
        begin = lines[number].indent if number < end else 0
    return end


def _underlined(title: str, sign: str) -> str:
    return f"{title}\n{sign * len(title)}"


def _cells(lines: Sequence[Line], border: regex.Pattern[str]) -> Iterator[Passage]:
    cell: list[Line] = []
    is_kept = False  # what stands before the first cell, or is code
    for line in lines:
        done = line.indent
        for found in [*border.finditer(line.text), None]:
            end = found.start() if found else len(line.text)
            words = line.text[done:end]
            cell.append(Line(line.start + done + len(words) - len(words.lstrip()), words.strip()))
            if found is not None:
                yield from _cell(cell, is_kept=is_kept)
                cell, is_kept, done = [], found["style"] in ("l", "m", "v"), found.end()
    yield from _cell(cell, is_kept=is_kept)


def _cell(lines: Sequence[Line], *, is_kept: bool) -> Iterator[Passage]:
    if not is_kept:
        yield from (passage._replace(context="cell") for passage in _read(lines))


def _items(text: str) -> list[Item]:
    return marked_items(text, _MARK)
