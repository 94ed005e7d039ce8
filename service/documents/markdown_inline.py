"""The inside of a paragraph of Markdown: inline tokens of the parser to items."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import regex
from markdown_it.token import Token

from service.documents.markdown_parser import parser
from service.documents.paragraph import Piece
from service.documents.passages import Passage, paired, split_passages
from service.documents.tagged import Close, Item, Object, Open, Words
from service.text.markup.tokenizer import TokenKind, tokenize
from service.text.placeholders import find_verbatim

_TITLE: Final = regex.compile(r"""\A\]\(.*\s(?:"(?P<text>[^"\n]+)"|'(?P<text>[^'\n]+)'|\((?P<text>[^()\n]+)\))\s*\)""")
_ATTRIBUTES: Final = regex.compile(r"\{[:#.]")
_CODE: Final = regex.compile(r"(`+[^`]*`+)")
Labels = Mapping[str, Any]
"""The definitions of links in the document, as the parser keeps them."""


@dataclass
class Inline:
    """A text of Markdown."""

    text: str
    labels: Labels
    joints: Sequence[str] = ()
    """The characters of the document between two lines of the text."""
    is_cell: bool = False

    def __post_init__(self) -> None:
        self._escaped = set("|") if self.is_cell else set()
        """Characters that have a backslash in the source, and get one in the translation."""

    def passage(self, place: tuple[int, int], context: str = "text", encode: Callable[[str], str] = str) -> Passage:
        return Passage(place, encode=encode, context=context, items=self._items(), write_text=self._written)

    def _items(self) -> list[Item]:
        tokens: list[Token] = []
        text = self.text
        parser().inline.parse(text, parser(), {"references": self.labels}, tokens)
        # The text of a bare address is the address.
        starts = {number for number, token in enumerate(tokens) if _is_address(token)}
        kept = (token for number, token in enumerate(tokens) if not {number - 1, number - 2} & starts)
        return paired([self._item(token) for token in kept], _mark)

    def _written(self, text: str) -> str:
        """Write plain text: what was escaped in the source is escaped again, but not in code."""
        if not self._escaped:
            return text
        pattern = regex.compile(rf"(?<!\\)[{regex.escape(''.join(sorted(self._escaped)), special_only=False)}]")
        parts = _CODE.split(text)
        parts[::2] = [pattern.sub(lambda found: f"\\{found[0]}", part) for part in parts[::2]]
        return "".join(parts)

    def _item(self, token: Token) -> Item:
        start, end = token.meta.get("span", (0, 0))
        raw = self.text[start:end]
        if _is_address(token):
            return Object([raw])
        match token.type:
            case "text" | "text_special" | "softbreak" | "code_inline" | "copied":
                return self._words(token, raw)
            case "hardbreak":
                joint = self.joints[self.text.count("\n", 0, start)]
                return Object([raw[: raw.startswith("\\")] + joint], is_break=True)
            case "link_open" | "link_close" | "image":
                return self._link(token, raw, token.meta["label_end"] - start)
            case kind if kind.endswith("_open"):
                return Open(token.markup)
            case kind if kind.endswith("_close"):
                return Close(token.markup)
        return Object([raw], is_break=raw.lower().startswith("<br"))

    def _words(self, token: Token, raw: str) -> Item:
        match token.type:
            case "softbreak":
                return Words(" ")
            case "text":
                return Words(token.content)
            case "text_special":
                if token.info == "escape" and len(token.content) == 1:
                    self._escaped.add(token.content)
                    return Words(token.content)
                return Words(token.markup)
        # Code and the like are words of their sentence if the translation copies them.
        is_word = "\n" not in raw and not _ATTRIBUTES.match(raw) and find_verbatim(raw) == [(0, len(raw))]
        return Words(raw) if is_word else Object([raw], is_word=raw[:1] == "<" or raw[:1].isalnum())

    def _link(self, token: Token, raw: str, label_end: int) -> Item:
        if token.type == "link_open":
            return Open("[", is_link=True)
        if token.type == "image":
            label = Inline(raw[2:label_end], self.labels).passage((2, label_end), "attribute")
            return Object([*split_passages(raw[:label_end], [label]), *self._titled(raw[label_end:])])
        address = raw[label_end:]
        if address in ("]", "[]", "][]"):  # the label is an address, too, and stays
            return Close(f"][{raw[1:label_end]}]")
        return Close("", self._titled(address))

    def _titled(self, raw: str) -> list[Piece]:
        """Return the end of a link, whose title is a paragraph."""
        return [*split_passages(raw, titles_of(raw, _TITLE))]


def titles_of(
    text: str,
    pattern: regex.Pattern[str],
    start: int = 0,
    context: str = "attribute",
    encode: Callable[[str], str] = str,
) -> Iterator[Passage]:
    """Yield the groups `text` of a pattern as texts of their own. `text` begins at `start` of its document."""
    for found in pattern.finditer(text):
        first, last = found.span("text")
        if first >= 0:
            yield Inline(found["text"], {}).passage((start + first, start + last), context, encode)


def _is_address(token: Token) -> bool:
    return token.type == "link_open" and token.markup == "autolink"


def _mark(raw: str) -> tuple[bool, str]:
    """Return whether a tag of HTML begins an element, and its name."""
    tag = next(tokenize(raw)) if raw.startswith("<") else None
    if tag is None or tag.is_empty or tag.kind not in (TokenKind.OPEN, TokenKind.CLOSE):
        return False, ""
    return tag.kind is TokenKind.OPEN, tag.name
