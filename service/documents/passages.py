"""The texts of a document, to paragraphs: the shape that all formats share."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from html import escape, unescape
from typing import Final, NamedTuple

import regex

from service.documents.icu_messages import CASES, QUOTED, message_items
from service.documents.paragraph import Kept, Paragraph, Piece, ReadOptions, render
from service.documents.tagged import Close, Item, Object, Open, Tagged, Words, is_outside, written_objects
from service.documents.xml_text import escape_attribute
from service.text.markup.tokenizer import Token, TokenKind, tokenize
from service.text.segment import has_words

_NUMBERING: Final = regex.compile(r"\s*+(?:[IVXLC]{1,6}|[A-Z])[.)]\s++(?=\S)")
_SURROGATE: Final = regex.compile("[\ud800-\udfff]")
"""Half a character, which JSON can spell and no encoding can write."""
_SWITCHES: Final = frozenset({"true", "false", "TRUE", "FALSE", "id"})
_STYLE: Final = regex.compile(
    r"[mp][trblxyse]?-(?:[0-9]{1,2}|auto)|[wh]-full|(?:items|justify|align|self)-(?:start|end|center|between|stretch)"
    r"|text-(?:center|left|right|start|end|xs|sm|lg|xl|muted)|(?:gap|grid-cols|col|col-[smlx][mdgl])-[0-9]{1,2}"
)
_STYLE_NAME: Final = regex.compile("[a-z][a-z0-9-]*+")
_VARIANTS: Final = regex.compile(r"([a-z][a-z0-9]*+)(?: \1(?:-[a-z0-9]++)++)++")
"""A class of CSS and its variants: `btn btn-primary`."""
CODE: Final = regex.compile(r"[A-Z]{2}|[a-z]{2}-[A-Z]{2}")
"""A code of a country or a locale. Some words in capitals look like one: `SHORT_WORDS`."""
SHORT_WORDS: Final = frozenset(
    "NO ON IN UP OK GO AM PM TO IT IS AN AS AT BY DO HE IF ME MY OF OR SO WE BE HI OH EX AD ID EU UN".split()
    + "HR TV PC AI QA".split()
)
_CURRENCIES: Final = frozenset(
    "EUR USD GBP JPY CHF CAD AUD NZD CNY HKD SGD SEK NOK DKK PLN CZK HUF RON UAH INR KRW THB ZAR BRL MXN ILS".split()
)
_REFERENCE: Final = regex.compile(r"&(?![lg]t;)(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
"""A character as HTML spells it; brackets are tags."""
_NUMBERED: Final = regex.compile("<(/?)([0-9]{1,4})>")
"""A tag of React's translations, which is none of HTML."""


# In a message with cases an apostrophe quotes syntax; the typographic one is a letter. Arguments keep theirs.
_ESCAPED_APOSTROPHE: Final = regex.compile(rf"{QUOTED}(*SKIP)(*FAIL)|''")
_APOSTROPHE: Final = regex.compile(r"\{[^{}]*+\}(*SKIP)(*FAIL)|'")


def inline_paragraph(
    source: Sequence[Piece], items: Sequence[Item], write_text: Callable[[str], str], context: str = "text"
) -> list[Piece]:
    """Make a paragraph of its parts, or return the source if there is nothing to translate.

    `write_text` converts plain text to that of the document.
    """
    words = "".join(item.text for item in items if isinstance(item, Words))
    if not has_words(words):
        return list(source)
    items = _without_numbering(_without_empty(items), write_text)
    first = next(number for number, item in enumerate(items) if not is_outside(item))
    last = next(number for number in range(len(items), 0, -1) if not is_outside(items[number - 1]))
    tagged = Tagged(items[first:last], write_text)

    def write(translation: str) -> str:
        inside = tagged.write(translation)
        return written_objects(items[:first]) + inside + written_objects(items[last:])

    return [Paragraph(source, tagged.markup, len(words), write, context=context)]


def _without_empty(items: Iterable[Item]) -> list[Item]:
    """Make an object of each element that has nothing in it, such as an icon: it has no words to stand around."""
    found: list[Item] = []
    for item in items:
        if isinstance(item, Close) and found and isinstance(before := found[-1], Open):
            found[-1] = Object([before.raw, item.raw, *item.pieces])
        else:
            found.append(item)
    return found


def _without_numbering(items: Sequence[Item], write_text: Callable[[str], str]) -> Sequence[Item]:
    """Make an object of typed numbering such as `I. `, which reads as a word."""
    start = next(number for number, item in enumerate(items) if not is_outside(item))
    first = items[start]
    found = _NUMBERING.match(first.text) if isinstance(first, Words) else None
    if found is None or not isinstance(first, Words) or found.end() == len(first.text):
        return items
    number = Object([first.run.opening + write_text(found[0]) + first.run.closing])
    return [*items[:start], number, Words(first.text[found.end() :], first.run), *items[start + 1 :]]


class Passage(NamedTuple):
    """A text in a document, and the place where its translation is written."""

    place: tuple[int, int]
    """The first character of the place in the document, and the character behind its last one."""
    text: str = ""
    """The text as its reader sees it: without escapes and quotes. It may have tags of HTML."""
    encode: Callable[[str], str] = str
    """Writes the whole translation as the format spells it."""
    context: str = "text"
    """The context of `Paragraph`."""
    items: Sequence[Item] | None = None
    """The parts of the text, if it has other tags than those of HTML."""
    has_references: bool = False
    """True if the words of the items have character references, and so does the translation."""
    is_in_place: bool = True
    """False if the place holds something other than the text, such as an empty or an old translation."""
    write_text: Callable[[str], str] | None = None
    """Writes plain text between items."""
    pieces: Iterable[Piece] | None = None
    """The pieces that are written at the place as they are, such as a flag of an entry, or a page in the text."""
    kept: str = ""
    """Why the text stays as it is; "" for a text to translate."""


def split_passages(text: str, passages: Iterable[Passage]) -> Iterator[Piece]:
    """Cut a document at its passages, which come in the order of their places; all else is copied."""
    done = 0
    for passage in passages:
        start, end = passage.place
        yield text[done:start]
        yield from passage_pieces(text[start:end], passage) if passage.pieces is None else passage.pieces
        done = end
    yield text[done:]


def at_passages(read: Callable[[str, ReadOptions], Iterable[Passage]]) -> Callable[[str, ReadOptions], Iterator[Piece]]:
    """Return a function that cuts a document at the passages that `read` finds, which is all that most formats need."""
    return lambda text, options: split_passages(text, read(text, options))


def passage_pieces(source: str, passage: Passage) -> list[Piece]:
    """Make a paragraph of the passage at `source`, or return its source if there is nothing to translate."""
    if passage.context in ("entry", "cell") and passage.items is None:
        passage = _read_entry(passage)
    if reason := passage.kept or reason_to_keep(passage.text, passage.context):
        return [Kept(source, reason)]
    items = plain_items(passage.text) if passage.items is None else passage.items
    if passage.has_references:
        items = [Words(unescape(item.text), item.run) if isinstance(item, Words) else item for item in items]
    write_text = passage.write_text or (partial(escape, quote=False) if passage.has_references else str)
    pieces = inline_paragraph(_nested(source, items), items, write_text, passage.context)
    if len(pieces) == 1 and isinstance(found := pieces[0], Paragraph):
        write, encode = found.write, passage.encode
        found.write, found.is_in_place = lambda translation: encode(write(translation)), passage.is_in_place
    return pieces


def _read_entry(passage: Passage) -> Passage:
    """Return a text of a program with its items, if it has cases, or spells characters as HTML does."""
    if CASES.search(passage.text):
        branches = message_items(_ESCAPED_APOSTROPHE.sub("\u2019", passage.text), plain_items)
        kept = "a message with cases" if branches is None else ""
        return passage._replace(items=branches, kept=kept, write_text=partial(_APOSTROPHE.sub, "\u2019"))
    if "&lt;/" in passage.text and "<" not in passage.text:
        spell = partial(escape, quote=False)
        return passage._replace(items=escaped_tags(plain_items(unescape(passage.text)), spell), write_text=spell)
    items = plain_items(passage.text) if "&" in passage.text else []
    words = "".join(item.text for item in items if isinstance(item, Words))
    references = {unescape(raw): raw for raw in _REFERENCE.findall(words)}
    if not references or "&" in _REFERENCE.sub("", words).replace("&lt;", "").replace("&gt;", ""):
        return passage
    read = [Words(_decoded(item.text), item.run) if isinstance(item, Words) else item for item in items]
    joined = regex.findall(r"\S+\u00a0\S+", _decoded(words))

    def write(text: str) -> str:
        for pair in joined:  # models write plain spaces
            text = text.replace(pair.replace("\u00a0", " "), pair)
        signs = {"&": "&amp;"} | references
        return str(regex.sub(r"&[lg]t;|.", lambda found: signs.get(found[0], found[0]), text, flags=regex.S))

    return passage._replace(items=read, write_text=write)


def _decoded(text: str) -> str:
    return str(_REFERENCE.sub(lambda found: unescape(found[0]), text))


def reason_to_keep(text: str, context: str) -> str:
    """Return why a text is none to translate; "" for one to translate. Contexts are those of `Paragraph`."""
    if context in ("entry", "cell") and (word := text.strip()):
        if _is_styles(word):
            return "names of styles"
        if word in _SWITCHES:
            return "a switch that programs read"
        if context == "cell" and (word in _CURRENCIES or (CODE.fullmatch(word) and word not in SHORT_WORDS)):
            return "a code that programs read"
    return "half a character" if _SURROGATE.search(text) else ""


def _is_styles(text: str) -> bool:
    """Return True for classes of CSS, such as `text-center mb-4`: more names with a hyphen than other words."""
    if _VARIANTS.fullmatch(text):
        return True
    names = text.split(" ")
    return (
        all(map(_STYLE_NAME.fullmatch, names))
        and any(map(_STYLE.fullmatch, names))
        and 2 * sum("-" in name for name in names) > len(names)
    )


def _nested(source: str, items: Iterable[Item]) -> list[Piece]:
    """Return the source of items with the paragraphs that lie in them, such as those of notes."""
    pieces: list[Piece] = []
    for item in items:
        inner = [] if isinstance(item, Words | Open) else [*item.pieces]
        found = [[piece] for piece in inner if isinstance(piece, Paragraph)]
        for part in [inner] if found and render(inner) in source else found:  # lines may have been joined
            before, raw, source = source.partition(render(part))
            pieces += [before, *(part if raw else [])]
    return [*pieces, source]


def plain_items(text: str) -> list[Item]:
    """Split a plain text, which may contain tags of HTML, into words, line breaks and tags."""
    items: list[Item] = []
    open_names: list[str] = []
    opened: Counter[str] = Counter()
    tokens = list(_tokens(text))
    closed = Counter(token.name for token in tokens if token.kind is TokenKind.CLOSE)
    for token in tokens:
        if token.kind is TokenKind.TEXT:
            items += _lines(token.raw)
        elif token.kind is TokenKind.OPEN and closed[token.name] > opened[token.name]:
            open_names.append(token.name)
            opened[token.name] += 1
            items.append(Open(token.raw))
        elif token.kind is TokenKind.CLOSE and open_names[-1:] == [token.name]:
            opened[open_names.pop()] -= 1
            items.append(Close(token.raw))
        else:
            items.append(Object([token.raw], is_break=token.name in ("br", "p", "div", "li")))
    if open_names:  # not nested: each tag is an object
        return [Object([item.raw]) if isinstance(item, Open | Close) else item for item in items]
    return items


def _tokens(text: str) -> Iterator[Token]:
    for token in tokenize(text):
        done = 0
        is_text = token.kind is TokenKind.TEXT or token.raw.startswith("</")
        for found in _NUMBERED.finditer(token.raw if is_text else ""):
            yield Token(TokenKind.TEXT, token.raw[done : found.start()])
            yield Token(TokenKind.CLOSE if found[1] else TokenKind.OPEN, found[0], found[2])
            done = found.end()
        yield Token(TokenKind.TEXT, token.raw[done:]) if done else token


def _lines(text: str) -> list[Item]:
    parts = regex.split(r"(\r\n|[\n\r\t\v\f])", text)
    items = [Object([part], is_break=True) if number % 2 else Words(part) for number, part in enumerate(parts)]
    return [item for item in items if item != Words("")]


def marked_items(text: str, mark: regex.Pattern[str]) -> list[Item]:
    """Split a text at its marks: a mark has the group `copied`, or `open`, `text` and `close`.

    One with the group `note` has a text of its own.
    """
    items: list[Item] = []
    done = 0
    for found in mark.finditer(text):
        items += plain_items(text[done : found.start()])
        done = found.end()
        if found["copied"] is not None:
            items.append(Object([found["copied"]], is_word=not found["copied"].startswith("::")))
        elif found.groupdict().get("note"):
            note = Passage((0, 0), items=marked_items(found["text"], mark))
            items.append(Object([found["note"], *passage_pieces(found["text"], note), found["close"]]))
        else:
            opening = Open(found["open"], is_link=found["open"].endswith(("`", "[", ",")))
            items += [opening, *marked_items(found["text"], mark), Close(found["close"])]
    return [*items, *plain_items(text[done:])]


def escaped_tags(items: Iterable[Item], write_text: Callable[[str], str]) -> list[Item]:
    """Return items of a text whose tags of HTML are text to the format around it."""
    for item in items:
        if isinstance(item, Open | Close):
            item.raw = write_text(item.raw)
        elif isinstance(item, Object):
            item.pieces = [write_text(render(item.pieces))]
    return list(items)


def paired(items: Sequence[Item], mark: Callable[[str], tuple[bool, str]]) -> list[Item]:
    """Make wrappers of the objects that begin and end something, where they nest with other wrappers.

    `mark` returns whether the text of an object begins something, and what; "" for another object.
    """
    found = list(items)
    opened: list[tuple[str, int]] = []  # what began, and "" for other wrappers
    for number, item in enumerate(items):
        if isinstance(item, Open):
            opened.append(("", number))
        elif isinstance(item, Close):
            while opened and opened.pop()[0]:
                pass
        elif isinstance(item, Object) and len(item.pieces) == 1:
            begins, name = mark(str(item.pieces[0]))
            if begins:
                opened.append((name, number))
            elif name and opened and opened[-1][0] == name:
                place = opened.pop()[1]
                found[place], found[number] = Open(written_objects([items[place]])), Close(str(item.pieces[0]))
    return found


def attribute_pieces(tag: str, values: Iterable[tuple[int, int]], read: Callable[[str], str]) -> list[Piece]:
    """Return a tag whose values at the given places are paragraphs. `read` replaces their references."""
    found = (Passage(place, read(tag[slice(*place)]), escape_attribute, context="attribute") for place in values)
    return [*split_passages(tag, found)]
