"""Markdown to passages: blocks by markdown-it, and everything between the texts of blocks as it is.

The lines of a translated paragraph are joined to one.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Final

import regex
from markdown_it.token import Token

from service.documents.heading_anchors import HeadingAnchors
from service.documents.markdown_inline import Inline, titles_of
from service.documents.markdown_parser import COMPONENT, COMPONENT_TAG, DIRECTIVE, parser
from service.documents.paragraph import Paragraph, Piece, ReadOptions, render
from service.documents.passages import Passage, passage_pieces, split_passages
from service.documents.text_lines import check_length
from service.documents.web_pages import split_page
from service.documents.yaml_files import read_yaml
from service.errors import InvalidRequest
from service.text.markup.tokenizer import TokenKind, tokenize

_LINE: Final = regex.compile(r"[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]++")
_FRONT_MATTER: Final = regex.compile(
    r"(---|\+\+\+)[ \t]*+\r?\n(?P<fields>.*?)^\1[ \t]*+(?:\r?\n|\Z)", regex.M | regex.S
)
_FIELDS: Final = frozenset("title description summary subtitle linkTitle sidebar_label lead excerpt tagline".split())
_HOME_FIELDS: Final = frozenset("text tagline title details linkText alt".split())
_TOML: Final = regex.compile(rf'^(?:{"|".join(_FIELDS)})\s*=\s*"(?P<text>(?:[^"\\\n]++|\\.)*+)"', regex.M)
_DIRECTIVE_TITLE: Final = regex.compile(
    r'[\s>*+-]*(?:(?:!!!|\?\?\?\+?|===[!+]*)[^"\n]*"(?P<text>[^"\n]+)"'
    r"|/{3,}[ \t]*+[\w-]++[ \t]*+\|[ \t]*+(?P<text>[^\n]*\S)"
    r"|:{3,}\s*+(?:\{[^{}\n]*\}|[\w-]++)(?:\[(?P<text>[^\]\n]+)\]|[ \t]++(?!\{)(?P<text>[^\n]*[^\s:{]))?)"
)
_ALERT: Final = regex.compile(r"\[![\w-]+\][-+]?")
_SCRIPT: Final = regex.compile(r"(?:import\s[^\n]*['\"]|export\s+(?:const|default|function|let|var|async)\b)")
_COPIED_LINE: Final = regex.compile(
    r"\{(?![{%])[^\n]*\}$|\\[A-Za-z]+(?:\[[^\]\n]*\]|\{[^}\n]*\})*$|\[\[?_?TOC_?\]?\]$|-{1,2}8<-{1,2}|%%.*%%$", regex.I
)
_SLASHES: Final = regex.compile(r"/{3,}[ \t]*+(?:[\w-]++(?:[ \t]*+\|[^\n]*)?)?$")
"""The first or last line of a block such as `/// note | Title`."""
_SHORTCODE: Final = regex.compile(r"(?:\{\{[<%].*[>%]\}\}|\{%.*%\}|</?[A-Z][\w.]*(?:\s[^<>]*)?/?>)$")
_MARKS: Final = regex.compile(r"\*\[[^\]\n]+\]:\s*+|\[[ xX]\]\s++")
"""An abbreviation, or a box to check."""
_MARKS_IN_HTML: Final = regex.compile(r"\*\*\S|\]\(\S")
_ARGUMENT: Final = regex.compile(
    r"""(?<![\w-])(?:title|label|alt|caption|description|summary|header|tagline)=(?:"(?P<text>[^"\n]+)"|'(?P<text>[^'\n]+)')"""
)


def read_markdown(text: str, options: ReadOptions) -> Iterator[Passage]:
    """Read the texts: paragraphs, headings, cells, titles."""
    front = _FRONT_MATTER.match(text)
    if front is not None:
        yield Passage(front.span("fields"), pieces=_front_matter(front["fields"], is_yaml=front[1] == "---"))
    yield from _Reader(text, front.end() if front else 0, options).read()


def _front_matter(fields: str, *, is_yaml: bool) -> list[Piece]:
    try:
        found = read_yaml(fields, wanted=_is_text) if is_yaml else titles_of(fields, _TOML, 0, "title", _in_toml)
        return list(split_passages(fields, found))
    except InvalidRequest:  # a template of a site may have fields that are no YAML
        return [fields]


def _in_toml(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _is_text(path: Sequence[str]) -> bool:
    """Return True for a field of front matter that a reader sees; a page of VitePress may have its texts there."""
    match path:
        case [name]:
            return name in _FIELDS
        case ["hero" | "features", *_, name]:
            return name in _HOME_FIELDS
    return False  # a text between two rules has no fields


def _between(affixes: tuple[str, str], text: str) -> str:
    return affixes[0] + text + affixes[1]


class _Reader:
    def __init__(self, text: str, start: int, options: ReadOptions) -> None:
        """Read a text from `start` on."""
        self._text = text
        self._options = options
        self._done = start
        self._lines = _LINE.findall(text, start)
        self._starts = [*accumulate(map(len, self._lines), initial=start)]
        env: dict[str, Any] = {}
        self._tokens = parser().parse(text[start:], env)
        self._labels = env.get("references", {})
        self._anchors = HeadingAnchors(text[start:], options.anchors)

    def read(self) -> Iterator[Passage]:
        for passage in self._passages():
            self._done = max(self._done, passage.place[1])
            yield passage

    def _passages(self) -> Iterator[Passage]:
        line, context = 0, "text"
        for token in self._tokens:
            line = token.map[0] if token.map else line
            if token.type.endswith("_open"):
                context = {"heading_open": "heading", "th_open": "cell", "td_open": "cell"}.get(token.type, "text")
            if token.type == f"container_{DIRECTIVE}_open":
                yield from titles_of(self._lines[line], _DIRECTIVE_TITLE, self._starts[line], "title")
            elif token.type in ("html_block", f"{COMPONENT}_open", f"{COMPONENT}_close") and token.map:
                start, end = self._starts[line], self._starts[token.map[1]]
                yield Passage((start, end), pieces=self._html(self._text[start:end]))
            elif token.type == "inline" and context == "cell":
                yield from self._cell(token, line)
            elif token.type == "inline":
                affixes = self._anchors.affixes(token.content) if context == "heading" else ("", "")
                encode = partial(_between, affixes) if any(affixes) else str
                yield from (each._replace(encode=encode) for each in self._paragraph(token, line, context))

    def _html(self, raw: str) -> Iterator[Piece]:
        """Read a block of HTML; tags of components have titles in their attributes."""
        done = 0
        for found in COMPONENT_TAG.finditer(raw):
            yield from self._page(raw[done : found.start()])
            yield from split_passages(found[0], titles_of(found[0], _ARGUMENT))
            done = found.end()
        yield from self._page(raw[done:])

    def _page(self, html: str) -> Iterator[Piece]:
        """Read HTML; many renderers read marks of Markdown in it, and those that do not show them."""
        for piece in split_page(html, self._options):
            raw = render(piece.source) if isinstance(piece, Paragraph) else ""
            if any(_MARKS_IN_HTML.search(each.raw) for each in tokenize(raw) if each.kind is TokenKind.TEXT):
                inside = raw.strip()
                before, _, behind = raw.partition(inside)
                inline = Inline(inside, self._labels, ["\n"] * inside.count("\n"))
                yield from [before, *passage_pieces(inside, inline.passage((0, 0))), behind]
            else:
                yield piece

    def _cell(self, token: Token, line: int) -> Iterator[Passage]:
        start = max(self._done, self._starts[line])
        for content in (token.content, token.content.replace("|", "\\|")):
            found = self._text.find(content, start, self._starts[line + 1])
            if content and found >= 0:
                yield Inline(content, self._labels, is_cell=True).passage((found, found + len(content)), "cell")
                return

    def _paragraph(self, token: Token, line: int, context: str) -> Iterator[Passage]:
        check_length(token.content)
        lines = [each.lstrip(" \t") for each in token.content.split("\n")]
        if _SCRIPT.match(lines[0]):
            return
        places = [self._place(line + number, content) for number, content in enumerate(lines)]
        if any(start < self._done for start, _ in places):
            return  # a text that stands elsewhere, such as a reference: it is copied
        first = 0
        for number, content in enumerate(lines):
            if alert := _ALERT.match(content) if number == 0 else None:
                first = 1
                yield from self._lines_of(line, [content[alert.end() :].strip()], context="title")
            elif _COPIED_LINE.match(content.rstrip()):
                yield from self._lines_of(line + first, lines[first:number], context)
                first = number + 1
            elif _SHORTCODE.match(content.rstrip()) or _SLASHES.match(content.rstrip()):
                yield from self._lines_of(line + first, lines[first:number], context)
                start, end = places[number]
                pattern = _DIRECTIVE_TITLE if content.startswith("///") else _ARGUMENT
                yield from titles_of(self._text[start:end], pattern, start)
                first = number + 1
        yield from self._lines_of(line + first, lines[first:], context)

    def _lines_of(self, line: int, lines: Sequence[str], context: str) -> Iterator[Passage]:
        """Read lines that are one text."""
        if not any(lines):
            return
        places = [self._place(line + number, content) for number, content in enumerate(lines)]
        skipped = _MARKS.match(lines[0])
        begin = skipped.end() if skipped else 0
        text = "\n".join(lines)[begin:].rstrip()
        joints = [self._text[before[1] : after[0]] for before, after in pairwise(places)]
        yield Inline(text, self._labels, joints).passage((places[0][0] + begin, places[-1][1]), context)

    def _place(self, line: int, content: str) -> tuple[int, int]:
        """Return where a line of a paragraph stands: at the end of its line, except in headings with marks there."""
        raw, content = self._lines[line], content.rstrip()
        bare = raw.rstrip()
        column = len(bare) - len(content) if bare.endswith(content) else raw.find(content)
        return self._starts[line] + column, self._starts[line] + column + len(content)
