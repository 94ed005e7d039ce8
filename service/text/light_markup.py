"""Light markup in plain texts: emphasis as in Markdown (`**bold**`, `*italic*`, `~~struck~~`), links, and tags.

Its marks are inline tags to a translation: they follow their words, as those of HTML do. A mark without a partner is
text, like any star or underscore; a tag without a partner on its line is a placeholder. The colour codes of games and
the accelerators of menus (`&cRed`, `&File`) are marks before their words.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import regex

from service.text.markup.runs import partners_of, split_run
from service.text.markup.source_map import Fragment
from service.text.markup.tokenizer import Token, TokenKind
from service.text.placeholders import find_tags, find_verbatim, is_icu_message
from service.text.segment import Segment, Term
from service.text.splitter import Splitter
from service.text.syntaxes import PROSE_COMMANDS

_LONGEST: Final = 500
"""Characters between two marks: any number of them would take quadratic time."""
_MARK: Final = regex.compile(r"[*_~\[<{&§\\]")


def _emphasis(mark: str, character: str) -> str:
    return (
        rf"(?<![\w\\{character}])(?P<opening>{mark}+)(?![\s{character}])"
        rf"(?P<inside>[^\n]{{1,{_LONGEST}}}?)(?<![\s\\{character}])(?P<closing>(?P=opening))(?![\w{character}])"
    )


_PAIR: Final = regex.compile(
    "|".join(
        [
            _emphasis(r"\*{1,3}", r"*"),
            _emphasis("_{1,2}", "_"),
            _emphasis("~{2}", "~"),
            rf"(?<!\\)(?P<opening>!?\[)(?P<inside>[^\[\]\n]{{1,{_LONGEST}}})(?P<closing>\]\([^\s()]{{1,2000}}\))",
            rf"(?P<opening>\\(?:{PROSE_COMMANDS})\{{)(?P<inside>[^{{}}\n]{{1,{_LONGEST}}})(?P<closing>\}})",
            rf"(?P<opening>\[\[[^\[\]|\n]{{1,{_LONGEST}}}\|)(?P<inside>[^\[\]|\n]{{1,{_LONGEST}}})(?P<closing>\]\])",
        ]
    )
)
_NAME: Final = regex.compile(r"__\w+__")
_NAME_OF_TAG: Final = regex.compile(r"[</>\s\[\]{}=]+")
_COLOUR: Final = regex.compile(r"§[0-9a-fk-or]|(?<!\w)&[0-9a-fk-or](?=\p{Lu})")
_ACCELERATOR: Final = regex.compile(r"(?<![\w&])&(?=\p{L})|(?<=\p{Ll})&(?=\p{Ll})|(?<![\w_])_(?=\p{Lu}\p{Ll})")
_LONGEST_LABEL: Final = 60
_FENCE: Final = regex.compile(r"[ \t]*(?P<fence>`{3,})")


class _Tag(NamedTuple):
    start: int
    end: int
    kind: TokenKind
    name: str
    is_empty: bool = False


def split_light_markup(text: str, language: str, splitter: Splitter) -> Iterator[Segment]:
    """Split a plain text lazily; the segments' texts joined are the text."""
    return splitter.merge_copied(_split(text, language, splitter))


def _split(text: str, language: str, splitter: Splitter) -> Iterator[Segment]:
    for is_code, part in _parts(text):
        if is_code:
            yield Segment(part, "", "")
        else:
            yield from splitter.split_cells(part, lambda cell: split_sentences(cell, language, splitter))


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the text in parts, with True for blocks of code: between two lines that begin with three grave accents."""
    if "```" not in text:
        yield False, text
        return
    part: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        found = _FENCE.match(line)
        if not fence and found is not None:
            yield False, "".join(part)
            part, fence = [line], found["fence"]
            continue
        part.append(line)
        if fence and found is not None and found["fence"].startswith(fence) and not line[found.end() :].strip():
            yield True, "".join(part)
            part, fence = [], ""
    yield False, "".join(part)


def split_sentences(text: str, language: str, splitter: Splitter, kept: Sequence[Term] = ()) -> Iterator[Segment]:
    """Split a line, or a part of one, as `Splitter.sentences` does; with `kept` terms, markup is text.

    The branches of an ICU message (`{count, plural, one {...} other {...}}`) are translated if it stands alone; within
    a sentence, the message is copied.
    """
    if not kept and text.lstrip().startswith("{") and is_icu_message(text.strip()):
        return _branches(text, language, splitter)
    if not kept and _MARK.search(text):
        verbatim = find_verbatim(text)
        tags = sorted([*_pairs(text, verbatim), *_paired_tags(text), *_single_marks(text, verbatim)])
        if tags:
            return split_run(list(_fragments(text, tags)), language, splitter, encoding="plain")
    return splitter.sentences(text, language, kept)


def _branches(message: str, language: str, splitter: Splitter) -> Iterator[Segment]:
    """Split the texts in the branches of an ICU message; names and keywords stay."""
    done = depth = 0
    for place, character in enumerate(message):
        depth += (character == "{") - (character == "}")
        if character == "{" and depth == 2:
            yield Segment(message[done : place + 1], "", "")
            done = place + 1
        elif character == "}" and depth == 1:
            yield from split_sentences(message[done:place], language, splitter)
            done = place
    yield Segment(message[done:], "", "")


def _fragments(text: str, tags: Sequence[_Tag]) -> Iterator[Fragment]:
    done = 0
    for tag in tags:
        if tag.start < done:
            continue  # a tag in the address of a link
        if done < tag.start:
            yield Fragment(text[done : tag.start], text[done : tag.start])
        raw = text[tag.start : tag.end]
        yield Fragment("", raw, Token(tag.kind, raw, tag.name, tag.is_empty))
        done = tag.end
    if done < len(text):
        yield Fragment(text[done:], text[done:])


def _pairs(text: str, verbatim: Sequence[tuple[int, int]]) -> Iterator[_Tag]:
    """Yield the marks of all pairs outside of code, URLs and names; pairs are nested or apart."""
    # Parts of the text that are still to be searched.
    parts = [(0, len(text))]
    while parts:
        position, end = parts.pop()
        while (found := _PAIR.search(text, position, end)) is not None:
            position = found.start() + 1
            if _is_text(found.start(), found.end(), verbatim) or _NAME.fullmatch(found[0]):
                continue
            name = found["opening"]
            for tag, kind in (("opening", TokenKind.OPEN), ("closing", TokenKind.CLOSE)):
                yield _Tag(found.start(tag), found.end(tag), kind, name)
            parts.append(found.span("inside"))
            position = found.end()


def _paired_tags(text: str) -> Iterator[_Tag]:
    """Yield the tags that have a partner, such as `<b>` and `</b>`, `[b]` and `[/b]`, `{b}` and `{/b}`."""
    found = find_tags(text) if any(sign in text for sign in ("</", "[/", "{/")) else []
    kinds = [TokenKind.CLOSE if tag[0][1] == "/" else TokenKind.OPEN for tag in found]
    names = [tag[0][0] + _NAME_OF_TAG.split(tag[0], 2)[1].lower() for tag in found]
    partners = partners_of(
        Token(kind, tag[0], name, tag[0].endswith("/>")) for kind, tag, name in zip(kinds, found, names, strict=True)
    )
    for number in partners:
        yield _Tag(found[number].start(), found[number].end(), kinds[number], names[number])


def _single_marks(text: str, verbatim: Sequence[tuple[int, int]]) -> Iterator[_Tag]:
    """Yield the colour codes before words, and the accelerator of a label."""
    found = list(_COLOUR.finditer(text))
    if not found and len(text) <= _LONGEST_LABEL:
        accelerators = list(_ACCELERATOR.finditer(text))
        found = accelerators if len(accelerators) == 1 else []
    for each in found:
        if not any(start <= each.start() < end for start, end in verbatim):
            yield _Tag(each.start(), each.end(), TokenKind.OPEN, each[0], is_empty=True)


def _is_text(start: int, end: int, verbatim: Sequence[tuple[int, int]]) -> bool:
    """Return True if a copied part overlaps the pair from `start` to `end` and is not inside of it."""
    for place in (start, end - 1):
        number = bisect_right(verbatim, place, key=lambda span: span[0]) - 1
        if number >= 0:
            first, last = verbatim[number]
            if place < last and (first < start or last > end):
                return True
    return False
