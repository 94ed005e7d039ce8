"""HTML to segments: block tags part them, inline tags stay in their sentences as marks, the rest is copied."""

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from html import escape, unescape
from itertools import accumulate
from typing import Final, NamedTuple

import regex

from service.text.lexer import Kind, Token, tokens
from service.text.plain import Splitter
from service.text.segment import Encoding, Mark, Segment, Term

_BLOCKS: Final = frozenset(
    "address article aside audio base blockquote body br button canvas caption center col colgroup dd details dialog "
    "dir div dl dt embed fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr "
    "html iframe legend li link main map menu meta nav noscript object ol optgroup option p param picture pre script "
    "search section select source style summary table tbody td template textarea tfoot th thead title tr track ul "
    "video xmp".split()
)
_VOIDS: Final = frozenset("area base br col embed hr img input link meta param source track wbr".split())
# Their content is no language, or is drawn.
_KEPT: Final = frozenset("pre code kbd samp var svg math object template script style textarea xmp".split())
_WORDY_ATTRIBUTES: Final = frozenset("alt title placeholder aria-label".split())
_DEEPEST: Final = 50  # elements in one another
_OBJECT: Final = "\ufffc"  # stands for what is kept in the middle of a sentence
_PIECE: Final = regex.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});?|[^&]+|&")
_SPACES: Final = {ord(space): " " for space in "\t\n\f\r"}


def split_html(html: str, language: str, splitter: Splitter) -> Iterator[Segment]:
    """Joined, the segments' texts give the text back. Takes it apart only as far as it is asked."""
    return splitter.joined(_segments(html, language, splitter))


def split_attribute(text: str, language: str, splitter: Splitter) -> Iterator[Segment]:
    """What an attribute says, not as it is written, to segments of it."""
    value = [_Piece(character, escape(character, quote=True)) for character in text]
    return splitter.joined(_sentences(value, language, splitter, encoding="attribute"))


class _Piece(NamedTuple):
    """A part of a run: what it says, and how that is spelled; a tag says nothing."""

    text: str
    raw: str
    tag: Token | None = None


def _is_alone(tag: Token, run: Sequence[_Piece]) -> bool:
    """Whether it is a picture or a field before which there is no text: its attributes can be read like a block's."""
    return tag.name in ("img", "input") and not any(piece.text.strip() for piece in run)


def _segments(html: str, language: str, splitter: Splitter) -> Iterator[Segment]:
    run: list[_Piece] = []
    for piece in _pieces(tokens(html)):
        if piece.tag is None or not (piece.tag.name in _BLOCKS or _is_alone(piece.tag, run)):
            run.append(piece)
            continue
        yield from _sentences(run, language, splitter)
        run = []
        yield from _block_tag(piece.tag, language, splitter)
    yield from _sentences(run, language, splitter)


def _pieces(found: Iterable[Token]) -> Iterator[_Piece]:
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
            yield from map(_spelled, _PIECE.findall(token.raw))
        else:
            yield _Piece("", token.raw, token)
    if kept:
        yield _kept(kept)


def _depth(token: Token, name: str) -> int:
    if token.name != name:
        return 0
    return {Kind.OPEN: 1, Kind.CLOSE: -1}[token.kind]


def _is_kept(tag: Token) -> bool:
    if tag.kind is not Kind.OPEN or tag.name in _VOIDS:
        return False
    if tag.name in _KEPT:
        return True
    values = {name: tag.raw[start:end].lower() for name, start, end in tag.attributes()}
    return values.get("translate") == "no" or "notranslate" in values.get("class", "").split()


def _kept(content: Sequence[Token]) -> _Piece:
    name, raw = content[0].name, "".join(token.raw for token in content)
    return _Piece("", raw, Token(Kind.OTHER, raw, name)) if name in _BLOCKS else _Piece(_OBJECT, raw)


def _spelled(raw: str) -> _Piece:
    # White space stays where it is, character by character; where the lines of the source end says nothing.
    return _Piece(unescape(raw) if raw.startswith("&") else raw.translate(_SPACES), raw)


def _block_tag(tag: Token, language: str, splitter: Splitter) -> Iterator[Segment]:
    """With what there is to read in its attributes."""
    raw, done = tag.raw, 0
    for name, start, end in tag.attributes() if tag.kind is Kind.OPEN else ():
        if name in _WORDY_ATTRIBUTES and raw[start - 1] in "\"'":
            yield _copied(raw[done:start])
            value = list(map(_spelled, _PIECE.findall(raw[start:end])))
            yield from _sentences(value, language, splitter, encoding="attribute")
            done = end
    yield _copied(raw[done:])


def _copied(raw: str) -> Segment:
    return Segment(raw, "", "", translatable=False)


def _sentences(
    run: Sequence[_Piece], language: str, splitter: Splitter, encoding: Encoding = "html"
) -> Iterator[Segment]:
    """Of a run of text and inline tags."""
    spelling = _Spelling(run)
    position = ended = 0
    behind: list[_Placed] = []
    for found in splitter.sentences(spelling.text, language, spelling.kept()):
        start = position + len(found.before)
        end = start + len(found.sentence)
        position += len(found.text)
        if not found.sentence:
            continue
        before, own = spelling.tags_before(start), spelling.tags_of(end)
        first, last = _edges(own, start, end)
        inner = own[first:last]
        terms = [_spelled_term(spelling, term, start, inner) for term in found.terms]
        marked = [tag for tag in inner if not any(_is_inside(tag, term, start) for term in found.terms)]
        yield found._replace(
            before=spelling.raw(ended, start, [*behind, *before, *own[:first]]),
            after="",
            raw=spelling.raw(start, end, inner),
            terms=terms,
            marks=_marks(marked, start),
            encoding=encoding,
        )
        ended, behind = end, own[last:]
    yield _copied(spelling.raw(ended, len(spelling.text), [*behind, *spelling.tags_before(len(spelling.text) + 1)]))


class _Placed(NamedTuple):
    """A tag, and how many characters of its run are before it."""

    place: int
    token: Token


class _Spelling:
    """A run's text, and how its parts are written."""

    def __init__(self, run: Sequence[_Piece]) -> None:
        self._pieces = [piece for piece in run if piece.tag is None]
        self._starts = list(accumulate((len(piece.text) for piece in self._pieces), initial=0))
        self.text = "".join(piece.text for piece in self._pieces)
        places = accumulate((len(piece.text) for piece in run), initial=0)
        self._tags = deque(_Placed(place, piece.tag) for place, piece in zip(places, run, strict=False) if piece.tag)

    def tags_before(self, place: int) -> list[_Placed]:
        """The next ones, up to a place."""
        taken: list[_Placed] = []
        while self._tags and self._tags[0].place < place:
            taken.append(self._tags.popleft())
        return taken

    def tags_of(self, end: int) -> list[_Placed]:
        """The next ones, of a sentence; where the next one touches it, what is opened belongs to that."""
        taken = self.tags_before(end)
        while self._tags and self._tags[0].place == end and self._tags[0].token.kind is not Kind.OPEN:
            taken.append(self._tags.popleft())
        return taken

    def kept(self) -> list[Term]:
        return [
            Term(start, start + 1, piece.raw, is_copy=True)
            for start, piece in zip(self._starts, self._pieces, strict=False)
            if piece.text == _OBJECT != piece.raw
        ]

    def raw(self, start: int, end: int, tags: Sequence[_Placed] = ()) -> str:
        """How the characters from `start` up to `end` are written, with some of the tags in them."""
        parts: list[str] = []
        for tag in tags:
            parts += [*self._raw_parts(start, tag.place), tag.token.raw]
            start = max(start, tag.place)
        return "".join([*parts, *self._raw_parts(start, end)])

    def _raw_parts(self, start: int, end: int) -> Iterator[str]:
        number = bisect_right(self._starts, start) - 1
        while start < end:
            piece, first = self._pieces[number], self._starts[number]
            last = min(end, first + len(piece.text))
            # A character reference may stand for two characters, and is never cut.
            is_whole = len(piece.raw) != len(piece.text)
            if not is_whole:
                yield piece.raw[start - first : last - first]
            elif start == first:
                yield piece.raw
            start = last
            number += 1


def _is_inside(tag: _Placed, term: Term, offset: int) -> bool:
    return term.is_copy and offset + term.start < tag.place < offset + term.end


def _spelled_term(spelling: _Spelling, term: Term, offset: int, tags: Iterable[_Placed]) -> Term:
    """What is copied, as it is written, with the tags in the middle of it."""
    if not term.is_copy:
        return term
    inside = [tag for tag in tags if _is_inside(tag, term, offset)]
    return term._replace(translation=spelling.raw(offset + term.start, offset + term.end, inside))


def _partners(tags: Sequence[_Placed]) -> dict[int, int]:
    """Which tags open and close the same element, both ways, by their numbers."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    names: Counter[str] = Counter()
    for number, (_, token) in enumerate(tags):
        if token.kind is Kind.OPEN and token.name not in _VOIDS and not token.raw.endswith("/>"):
            opened.append(number)
            names[token.name] += 1
        elif token.kind is Kind.CLOSE and names[token.name]:
            # What was opened since and never closed has no partner.
            while number not in partners:
                last = opened.pop()
                names[tags[last].token.name] -= 1
                if tags[last].token.name == token.name:
                    partners[number], partners[last] = last, number
    return partners


def _edges(tags: Sequence[_Placed], start: int, end: int) -> tuple[int, int]:
    """From which to which number tags are in the sentence; others hold all of it, or nothing, and stay at its edges."""
    partners = _partners(tags)

    def holds(number: int, *places: int) -> bool:
        return number not in partners or tags[partners[number]].place in places

    first, last = 0, len(tags)
    while first < last and tags[first].place == start and holds(first, start, end):
        first += 1
    while last > first and tags[last - 1].place == end and (holds(last - 1, end) or partners[last - 1] < first):
        last -= 1
    return first, last


def _marks(tags: Sequence[_Placed], offset: int) -> list[Mark]:
    """What has lost its partner, or is too deep in others, is a mark of its own."""
    partners = _partners(tags)
    levels: list[list[Mark]] = [[]]
    opened: list[_Placed] = []
    for number, tag in enumerate(tags):
        partner = partners.get(number)
        if partner is not None and partner > number and len(levels) > _DEEPEST:
            del partners[number], partners[partner]
            partner = None
        place = tag.place - offset
        if partner is None:
            levels[-1].append(Mark(place, place, tag.token.raw))
        elif partner > number:
            opened.append(tag)
            levels.append([])
        else:
            inside, opening = levels.pop(), opened.pop()
            levels[-1].append(Mark(opening.place - offset, place, opening.token.raw, tag.token.raw, inside))
    return levels[0]
