"""LaTeX: paragraphs, headings, captions, notes, items and cells; whatever is not known to be text is copied."""

import unicodedata
from collections import Counter
from collections.abc import Generator, Iterator
from typing import Final

import regex

from service.documents.paragraph import Piece, ReadOptions
from service.documents.passages import Passage, passage_pieces
from service.documents.tagged import Close, Item, Object, Open, Words

_TITLES: Final = frozenset(
    "part chapter section subsection subsubsection paragraph subparagraph title subtitle caption footnote footnotetext "
    "thanks frametitle framesubtitle marginpar".split()
)
"""Commands whose argument is a text of its own."""
_WRAPPERS: Final = frozenset(
    "emph textbf textit textsl textsc textrm textsf textmd textup textnormal underline uline enquote alert hl".split()
)
"""Commands whose argument is a part of their sentence."""
_NAMES: Final = frozenset("texttt url path ref eqref cref Cref autoref pageref LaTeX TeX".split())
"""Commands that are read as a word."""
_TITLED: Final = frozenset("frame block alertblock exampleblock".split())
"""Environments whose argument is a title."""
_COPIED: Final = frozenset(
    "equation align gather multline eqnarray displaymath math alignat flalign verbatim Verbatim lstlisting minted "
    "comment tikzpicture tikzcd picture pspicture thebibliography algorithm algorithmic filecontents".split()
)
_BRACE: Final = regex.compile(r"\\.|%[^\n]*|[{}]", regex.S)
_ACCENTS: Final = dict(
    zip(
        "'`\"^~=.cvurHk",
        "\u0301\u0300\u0308\u0302\u0303\u0304\u0307\u0327\u030c\u0306\u030a\u030b\u0328",
        strict=True,
    )
)
_TOKEN: Final = regex.compile(
    r"(?P<comment>%[^\n]*+(?:\n[ \t]*+)?)"
    r"|(?P<word>\\(?:verb|lstinline)\*?(?P<bar>[^\sA-Za-z*{])[^\n]{0,300}?(?P=bar)"
    r"|\\\(.{1,2000}?\\\)|\\\[.{1,5000}?\\\]|\$\$.{1,5000}?\$\$|\$(?:[^$\\]|\\.){1,2000}?\$)"
    r"|(?P<boundary>\n[ \t]*+\n\s*+|\\(?:begin|end|item|par|newline|tabularnewline)(?![A-Za-z])|\\\\|&)"
    r"|(?P<accent>\\(?P<mark>[cvurHk](?=[\s{])|['`\"^~=.])\s*(?:\{\\?(?P<letter>[A-Za-z])\}|\\?(?P<letter>[A-Za-z])))"
    r"|(?P<sign>\\[-,%&#_${}/@\s])|(?P<command>\\(?:[A-Za-z@]++\*?|.|\Z))"
    r"|(?P<text>(?:[^\\{}&$%\n]++|\n(?![ \t]*+\n))++)|.",
    regex.S,
)
_OPTION: Final = regex.compile(r"\s?\[(?:[^\[\]{}]|\{[^{}]{0,200}\}){0,300}\]")
_SIGNS: Final = {"``": "“", "''": "”", "---": "—", "--": "–", "~": "\u00a0", "\\,": "\u202f"}
_SPACE: Final = " \t\r\n"
_SIGN: Final = regex.compile("``|''|---?|~")
_SPELLED: Final = {"\\": "\\textbackslash{}", "^": "\\^{}", **{sign: f"\\{sign}" for sign in "%&#_${}"}} | {
    sign: spelling for spelling, sign in _SIGNS.items()
}
_SPECIAL: Final = regex.compile("[" + regex.escape("".join(_SPELLED)) + "]")


def read_tex(text: str, _: ReadOptions) -> Iterator[Passage]:
    """Read the body of a document, or a part of one. Before the body only titles are text."""
    reader = _Reader(text)
    begin = max(text.find("\\begin{document}"), 0)
    end = text.rfind("\\end{document}", begin)
    for found in regex.finditer(r"\\(?:sub)?title\s*+(?:\[[^\]\n]*\])?(?=\{)", text[:begin]):
        start, closing = found.end() + 1, reader.closings[found.end()]
        if start <= closing < begin:
            yield Passage((start, closing), pieces=reader.read(start, closing, "title"))
    end = end if end >= 0 else len(text)
    yield Passage((begin, end), pieces=reader.read(begin, end))


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self.closings: Counter[int] = Counter()
        """The place of the brace that closes the one at each place; 0 if there is none."""
        opened: list[int] = []
        for found in _BRACE.finditer(text):
            if found[0] == "{":
                opened.append(found.start())
            elif found[0] == "}" and opened:
                self.closings[opened.pop()] = found.start()

    def read(self, start: int, end: int, context: str = "text") -> Iterator[Piece]:
        """Yield the pieces of a part of the document that may have several paragraphs."""
        items: list[Item] = []
        position = start
        while position < end:
            found = self._token(position, end)
            if found["boundary"] is not None:
                yield from self._paragraph(items, start, position, context)
                items = []
                position = start = yield from self._boundary(found, end)
            elif not items and found[0][0].isspace():
                position += len(found[0]) - len(found[0].lstrip())
                yield self._text[start:position]
                start = position
            else:
                position = self._add(found, end, items)
                if isinstance(first := items[0], Object):  # a command before the words
                    yield from first.pieces
                    items, start = [], position
        yield from self._paragraph(items, start, end, context)

    def _token(self, position: int, end: int) -> regex.Match[str]:
        found = _TOKEN.match(self._text, position, end)
        assert found is not None
        return found

    def _paragraph(self, items: list[Item], start: int, end: int, context: str) -> list[Piece]:
        text = self._text[start:end]
        if items and isinstance(last := items[-1], Words):
            items[-1] = Words(last.text.rstrip(_SPACE))
        passage = Passage((start, end), context=context, items=items, write_text=_written)
        return [*passage_pieces(text.rstrip(_SPACE), passage), text[len(text.rstrip(_SPACE)) :]]

    def _boundary(self, found: regex.Match[str], end: int) -> Generator[Piece, None, int]:
        """Read what divides paragraphs; the place behind it is returned."""
        start: int = found.start()
        position: int = found.end()
        option = _OPTION.match(self._text, position, end)
        if found[0] == "\\item" and option is not None:
            opening = self._text.index("[", position) + 1
            yield self._text[start:opening]
            yield from self.read(opening, option.end() - 1, "title")
            start, position = option.end() - 1, option.end()
        elif found[0] in ("\\begin", "\\end") and (closing := self.closings[position]):
            name = self._text[position + 1 : closing]
            position = closing + 1
            if found[0] == "\\begin" and name.rstrip("*") in _COPIED:
                last = self._text.find(f"\\end{{{name}}}", position, end)
                position = end if last < 0 else last
            elif name in _TITLED and (closing := self.closings[position]):
                yield self._text[start : position + 1]
                yield from self.read(position + 1, closing, "title")
                start, position = closing, closing + 1
            elif found[0] == "\\begin":
                position = self._arguments(position, end)
        elif found[0] == "\\\\" and option is not None:
            position = option.end()
        yield self._text[start:position]
        return position

    def _arguments(self, position: int, end: int) -> int:
        """Return the place behind the arguments of a command."""
        while (option := _OPTION.match(self._text, position, end)) or self.closings[position]:
            position = option.end() if option else self.closings[position] + 1
        return position

    def _add(self, found: regex.Match[str], end: int, items: list[Item]) -> int:
        """Add words, a command with its arguments, or a group; the place behind it is returned."""
        raw: str = found[0]
        start: int = found.start()
        position: int = found.end()
        name = raw[1:].rstrip("*") if found["command"] else ""
        opening = start if raw == "{" else position
        if name == "href":
            opening = self.closings[position] + 1
        elif name in _TITLES and (option := _OPTION.match(self._text, position, end)):
            opening = option.end()
        closing = self.closings[opening]
        if found["text"]:
            words = regex.sub(r"\s*\n\s*", " ", raw)
            items.append(Words(_SIGN.sub(lambda sign: _SIGNS[sign[0]], words)))
        elif found["accent"]:
            items.append(Words(unicodedata.normalize("NFC", found["letter"] + _ACCENTS[found["mark"]])))
        elif found["sign"]:
            items.append(Words(_SIGNS.get(raw, "" if raw[1] in "-/@" else raw[1])))
        elif closing and name in _TITLES:
            inside = self.read(opening + 1, closing, "heading" if name.endswith("section") else "title")
            items.append(Object([self._text[start : opening + 1], *inside, "}"]))
            return closing + 1
        elif closing and (raw == "{" or name in _WRAPPERS or name == "href"):
            items.append(Open(self._text[start : opening + 1], is_link=name == "href"))
            position = opening + 1
            while position < closing:
                position = self._add(self._token(position, closing), closing, items)
            items.append(Close("}"))
            return closing + 1
        elif name:
            position = self._arguments(position, end)
            raw = self._text[start:position]
            items.append(Object([raw], is_word=name in _NAMES or raw.endswith("{}")))
        else:
            items.append(Object([raw], is_break=found["boundary"] is not None, is_word=found["word"] is not None))
        return position


def _written(text: str) -> str:
    return str(_SPECIAL.sub(lambda found: _SPELLED[found[0]], text))
