"""Markdown to pieces: code, front matter, markers and addresses are copied; paragraphs are joined to one line each."""

from collections.abc import Iterator, Sequence
from typing import Final

import regex

from service.documents.paragraph import Piece, ReadOptions
from service.documents.passages import Passage, passage_pieces
from service.documents.tagged import Close, Item, Object, Open, Words
from service.documents.web_pages import split_page

_FRONT_MATTER: Final = regex.compile(r"\ufeff?(---|\+\+\+)[ \t]*\r?\n.*?^\1[ \t]*(?:\r?\n|\Z)", regex.M | regex.S)
_FENCE: Final = regex.compile(r"[\s>]*(?:[-*+]\s+|[0-9]{1,9}[.)]\s+)?(`{3,}|~{3,}|\$\$)")
_INDENTED: Final = regex.compile(r"(?: {4}|\t)")
_MARKERS: Final = regex.compile(
    r"\s*(?:(?:>|[-*+]|[0-9]{1,9}[.)])(?:\s+|$)|\[[ xX]\]\s+|\[\^[^\]\n]+\]:\s*|#{1,6}\s+|:\s+|!!!\s+\w+\s*)*"
)
_STARTS: Final = regex.compile(r"\s*(?:(?:>|[-*+]|[0-9]{1,9}[.)])\s|#{1,6}\s|\||\[\^[^\]\n]+\]:)")
_QUOTED: Final = regex.compile(r"\s*(?:>\s?)*")
_DEFINITION: Final = regex.compile(r" {0,3}\[(?!\^)([^\]\n]+)\]:\s*\S")
_HTML: Final = regex.compile(
    r" {0,3}<(?:!|\?|/?(?:address|article|aside|blockquote|body|center|details|dialog|dd|div|dl|dt|fieldset|figcaption|"
    r"figure|footer|form|h[1-6]|header|hr|iframe|li|link|main|nav|ol|p|pre|script|section|style|summary|table|tbody|td|"
    r"tfoot|th|thead|tr|ul|video|img|picture)\b)",
    regex.I,
)
_HEADING_END: Final = regex.compile(r"(?:\s+#+|\s*\{#[^}]*\})?\s*\Z")
_TABLE_RULE: Final = regex.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*\Z")
_CELL: Final = regex.compile(r"(?:[^|\\`]++|\\.|`[^`]*+`|[\\`])++|\|")
_INLINE: Final = regex.compile(
    r"(?P<copied>(?P<ticks>`++).*?(?<!`)(?P=ticks)(?!`)|\\[!-/:-@\[-`{-~]|<(?:[a-z][a-z0-9+.-]+:|[^\s<>@]+@)[^\s<>]*+>|"
    r"\[\^[^\]\s]+\]|<!--.*?-->|\{[%{].*?[%}]\}|\$[^\s$](?:[^$\n]*[^\s$])?\$(?![0-9]))"
    r"|(?P<hard>(?: {2,}|\\)\r?\n\s*)|(?P<soft>[ \t]*\r?\n[ \t]*)"
    r"|(?P<link>!?\[)(?P<label>(?:[^\[\]\\]|\\.|!?\[[^\[\]]*\](?:\([^()\s]*\))?)*+)"
    r"(?P<address>\]\((?:[^()\\\n]|\\.|\([^()\n]*\))*+\)|\]\[[^\]\n]*+\]|\])"
    r"|(?P<mark>\*{1,3}|~~|(?<!\w)_{1,3})(?=[^\s*_])(?P<marked>.+?)(?<=[^\s*_\\])(?P=mark)(?![*\w]|(?<=_)\w)"
    r"|(?P<tag><(?P<name>[A-Za-z][\w-]*)(?:\s[^<>]*)?(?<!/)>)(?P<within>.*?)(?P<end></(?P=name)>)"
    r"|(?P<single></?[A-Za-z][^<>]*>)",
    regex.S,
)


def split_markdown(text: str, _: ReadOptions) -> Iterator[Piece]:
    """Split Markdown into its paragraphs, headings, list items and table cells."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        front = _FRONT_MATTER.match(text)
        self._front = front[0] if front else ""
        self._lines = text[len(self._front) :].splitlines(keepends=True)
        self._labels = {found[1].lower() for line in self._lines if (found := _DEFINITION.match(line))}

    def read(self) -> Iterator[Piece]:
        yield self._front
        number = 0
        is_after_blank, is_in_list = True, False
        while number < len(self._lines):
            line = self._lines[number]
            end = self._copied_end(number, may_be_indented=is_after_blank and not is_in_list)
            if end > number:
                yield "".join(self._lines[number:end])
            elif _HTML.match(line):
                end = self._until_blank(number)
                yield from split_page("".join(self._lines[number:end]), ReadOptions(target=""))
            elif self._is_table(number):
                end = number + 1
                yield from self._row(line)
            else:
                end = self._paragraph_end(number)
                yield from self._paragraph("".join(self._lines[number:end]))
            is_after_blank = not self._lines[end - 1].strip()
            if not is_after_blank:
                is_in_list = bool(regex.match(r"\s*(?:[-*+]|[0-9]{1,9}[.)])\s", line)) or (
                    is_in_list and line[:1].isspace()
                )
            number = end

    def _copied_end(self, number: int, *, may_be_indented: bool) -> int:
        """Return the end of the copied lines that begin at `number`; `number` if the line there is translated."""
        line = self._lines[number]
        if not line.strip() or _DEFINITION.match(line) or _TABLE_RULE.match(line):
            return number + 1
        if fence := _FENCE.match(line):
            closing = regex.compile(rf"[\s>]*{regex.escape(fence[1])}{regex.escape(fence[1][0])}*\s*\Z")
            if fence[1] == "$$" and line.count("$$") > 1:
                return number + 1
            rest = range(number + 1, len(self._lines))
            return next((each + 1 for each in rest if closing.match(self._lines[each])), len(self._lines))
        end = number
        while may_be_indented and end < len(self._lines) and _INDENTED.match(self._lines[end]):
            end += 1
        return end

    def _until_blank(self, number: int) -> int:
        rest = range(number, len(self._lines))
        return next((each for each in rest if not self._lines[each].strip()), len(self._lines))

    def _is_table(self, number: int) -> bool:
        line = self._lines[number]
        is_before_rule = number + 1 < len(self._lines) and "|" in line and "-" in self._lines[number + 1]
        return line.lstrip().startswith("|") or (
            is_before_rule and "|" in self._lines[number + 1] and bool(_TABLE_RULE.match(self._lines[number + 1]))
        )

    def _paragraph_end(self, number: int) -> int:
        end = number + 1
        if regex.match(r"[\s>]*#{1,6}\s", self._lines[number]):
            return end
        while end < len(self._lines):
            line = self._lines[end]
            bare = line[_QUOTED.match(line).end() :] if _QUOTED.match(self._lines[number])[0].strip() else line
            if (
                not bare.strip()
                or _STARTS.match(bare)
                or _FENCE.match(line)
                or _HTML.match(line)
                or regex.fullmatch(r"\s*(?:=+|-+|(?:[-*_]\s*){3,})\s*", bare)
            ):
                break
            end += 1
        return end

    def _row(self, line: str) -> Iterator[Piece]:
        for part in _CELL.findall(line):
            space = part[: len(part) - len(part.lstrip())]
            content = part.strip()
            yield space
            yield from self._text(content)
            yield part[len(space) + len(content) :]

    def _paragraph(self, text: str) -> Iterator[Piece]:
        markers = _MARKERS.match(text)
        start = markers.end() if markers else 0
        end = _HEADING_END.search(text, start).start() if "#" in text else len(text.rstrip())
        end = max(start, end)
        first, *others = text[start:end].splitlines(keepends=True) or [""]
        quoted = ">" in text[:start]
        content = first + "".join(line[_QUOTED.match(line).end() :] if quoted else line for line in others)
        yield text[:start]
        yield from self._text(content, text[start:end])
        yield text[end:]

    def _text(self, content: str, source: str | None = None) -> list[Piece]:
        raw = content if source is None else source
        return passage_pieces(raw, Passage((0, 0), items=list(self._items(content))))

    def _items(self, text: str) -> Iterator[Item]:
        done = 0
        for found in _INLINE.finditer(text):
            if found.start() > done:
                yield Words(text[done : found.start()])
            done = found.end()
            yield from self._found(found)
        if done < len(text):
            yield Words(text[done:])

    def _found(self, found: regex.Match[str]) -> Sequence[Item]:
        if found["hard"]:
            return [Object([found[0]], is_break=True)]
        if found["ticks"] == "`" and "\n" not in found[0]:
            return [Words(found[0])]  # copied as a word of its sentence
        if found["soft"]:
            return [Words(" ")]
        if found["mark"]:
            return [Open(found["mark"]), *self._items(found["marked"]), Close(found["mark"])]
        if found["tag"]:
            return [Open(found["tag"]), *self._items(found["within"]), Close(found["end"])]
        if found["link"]:
            return self._link(found["link"], found["label"], found["address"])
        if found["ticks"] == "`" and "\n" not in found[0]:
            return [Words(found[0])]  # copied as a word of its sentence
        return [Object([found[0]], is_break=found[0].lower().startswith("<br"))]

    def _link(self, opening: str, label: str, address: str) -> Sequence[Item]:
        if address in ("]", "[]", "][]"):
            if label.lower() not in self._labels:
                return [Words(opening), *self._items(label), Words(address)]
            address = f"][{label}]"  # the label is an address, too, and stays
        return [Open(opening, is_link=True), *self._items(label), Close(address)]
