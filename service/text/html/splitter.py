"""HTML to segments: block tags part them, inline tags stay in their sentences as marks, the rest is copied."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from service.text.html.inline_tags import VOIDS, edges, marks_of
from service.text.html.source_map import OBJECT, Piece, Placed, Spelling, is_inside, read, spelled_term
from service.text.html.tokenizer import Kind, Token, tokens
from service.text.segment import Encoding, Segment
from service.text.splitter import Splitter

_BLOCKS: Final = frozenset(
    "address article aside audio base blockquote body br button canvas caption center col colgroup dd details dialog "
    "dir div dl dt embed fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr "
    "html iframe legend li link main map menu meta nav noscript object ol optgroup option p param picture pre script "
    "search section select source style summary table tbody td template textarea tfoot th thead title tr track ul "
    "video xmp".split()
)
# Their content is no language, or is drawn.
_KEPT: Final = frozenset("pre code kbd samp var svg math object template script style textarea xmp".split())
_WORDY_ATTRIBUTES: Final = frozenset("alt title placeholder aria-label".split())


def split_html(html: str, language: str, splitter: Splitter) -> Iterator[Segment]:
    """Joined, the segments' texts give the text back. Takes it apart only as far as it is asked."""
    return splitter.joined(_segments(html, language, splitter))


def split_attribute(text: str, language: str, splitter: Splitter) -> Iterator[Segment]:
    """What an attribute says, not as it is written, to segments of it."""
    value = [Piece(character, escape(character, quote=True)) for character in text]
    return splitter.joined(_sentences(value, language, splitter, encoding="attribute"))


def _is_alone(tag: Token, run: Sequence[Piece]) -> bool:
    """Whether it is a picture or a field before which there is no text: its attributes can be read like a block's."""
    return tag.name in ("img", "input") and not any(piece.text.strip() for piece in run)


def _segments(html: str, language: str, splitter: Splitter) -> Iterator[Segment]:
    run: list[Piece] = []
    for piece in _pieces(tokens(html)):
        if piece.tag is None or not (piece.tag.name in _BLOCKS or _is_alone(piece.tag, run)):
            run.append(piece)
            continue
        yield from _sentences(run, language, splitter)
        run = []
        yield from _block_tag(piece.tag, language, splitter)
    yield from _sentences(run, language, splitter)


def _pieces(found: Iterable[Token]) -> Iterator[Piece]:
    """Text piece by piece, tag by tag; what is kept, with all that is in it, as one."""
    kept: list[Token] = []
    depth = 0
    for token in found:
        # An inline element that is never closed ends with its block.
        if kept and kept[0].name not in _BLOCKS and token.name in _BLOCKS:
            yield _kept(kept)
            kept = []
        if kept:
            kept.append(token)
            depth += _depth(token, kept[0].name)
            if depth == 0:
                yield _kept(kept)
                kept = []
        elif _is_kept(token):
            kept, depth = [token], 1
        elif token.kind is Kind.TEXT:
            yield from read(token.raw)
        else:
            yield Piece("", token.raw, token)
    if kept:
        yield _kept(kept)


def _depth(token: Token, name: str) -> int:
    if token.name != name:
        return 0
    return {Kind.OPEN: 1, Kind.CLOSE: -1}[token.kind]


def _is_kept(tag: Token) -> bool:
    if tag.kind is not Kind.OPEN or tag.name in VOIDS:
        return False
    if tag.name in _KEPT:
        return True
    values = {name: tag.raw[start:end].lower() for name, start, end in tag.attributes()}
    return values.get("translate") == "no" or "notranslate" in values.get("class", "").split()


def _kept(content: Sequence[Token]) -> Piece:
    name, raw = content[0].name, "".join(token.raw for token in content)
    return Piece("", raw, Token(Kind.OTHER, raw, name)) if name in _BLOCKS else Piece(OBJECT, raw)


def _block_tag(tag: Token, language: str, splitter: Splitter) -> Iterator[Segment]:
    """With what there is to read in its attributes."""
    raw, done = tag.raw, 0
    for name, start, end in tag.attributes() if tag.kind is Kind.OPEN else ():
        if name in _WORDY_ATTRIBUTES and raw[start - 1] in "\"'":
            yield _copied(raw[done:start])
            value = list(read(raw[start:end]))
            yield from _sentences(value, language, splitter, encoding="attribute")
            done = end
    yield _copied(raw[done:])


def _copied(raw: str) -> Segment:
    return Segment(raw, "", "", translatable=False)


def _sentences(
    run: Sequence[Piece], language: str, splitter: Splitter, encoding: Encoding = "html"
) -> Iterator[Segment]:
    """Of a run of text and inline tags."""
    spelling = Spelling(run)
    position = ended = 0
    behind: list[Placed] = []
    for found in splitter.sentences(spelling.text, language, spelling.kept()):
        start = position + len(found.before)
        end = start + len(found.sentence)
        position += len(found.text)
        if not found.sentence:
            continue
        before, own = spelling.tags_before(start), spelling.tags_of(end)
        first, last = edges(own, start, end)
        inner = own[first:last]
        terms = [spelled_term(spelling, term, start, inner) for term in found.terms]
        marked = [tag for tag in inner if not any(is_inside(tag, term, start) for term in found.terms)]
        yield found._replace(
            before=spelling.raw(ended, start, [*behind, *before, *own[:first]]),
            after="",
            raw=spelling.raw(start, end, inner),
            terms=terms,
            marks=marks_of(marked, start),
            encoding=encoding,
        )
        ended, behind = end, own[last:]
    yield _copied(spelling.raw(ended, len(spelling.text), [*behind, *spelling.tags_before(len(spelling.text) + 1)]))
