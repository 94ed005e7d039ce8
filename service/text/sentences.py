"""Where a text may be cut: behind its sentences, and where one is too long for a model, within it."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import regex
from sentencex import segment as split_sentences

from service.text.segment import Term

_LONGEST_PIECE: Final = 2000
_SENTENCE_END: Final = regex.compile(r"[.!?…]\s+|[。！？｡।॥]\s*")
# Where a long sentence is cut, the best first: behind a clause, behind a part of it, before a conjunction of the
# languages that most models know.
_CLAUSES: Final = (
    regex.compile(r"[;:—–؛]\s+|[；：]\s*"),
    regex.compile(r"[,،]\s+|[，、]\s*"),
    regex.compile(r"\s+(?=(?:and|but|or|because|et|mais|ou|car|und|aber|oder|weil|y|pero|porque|e|ma|perché|mas)\s)"),
)
_SPACE: Final = regex.compile(r"\s+")
WITHOUT_SPACES: Final = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]"
"""An expression for the letters of scripts that have no space between words."""
_WITHOUT_SPACES: Final = regex.compile(WITHOUT_SPACES)


# Languages whose sentences follow one another without a space.
_UNSPACED: Final = frozenset("bo dz ja km lo lzh my th wuu yue zh".split())
_CLOSING: Final = frozenset({"Pe", "Pf", "Po"})


def joint(source: str, target: str) -> str:
    """What parts two translated sentences that nothing parts in their own language."""
    languages = (source.partition("-")[0] in _UNSPACED, target.partition("-")[0] in _UNSPACED)
    return " " if languages == (True, False) else ""


def closes(character: str) -> bool:
    """Whether it belongs to what is before it: a full stop, a closing bracket or quotation mark."""
    return unicodedata.category(character) in _CLOSING


def is_unspaced(character: str) -> bool:
    """Whether it belongs to a script that has no space between words."""
    return _WITHOUT_SPACES.fullmatch(character) is not None


def pieces(text: str) -> Iterator[str]:
    """Of a long text, so that it is not all looked at before its first sentence is translated."""
    start = 0
    while start < len(text):
        end = _piece_end(text, start)
        yield text[start:end]
        start = end


def sentence_ends(piece: str, language: str) -> Iterator[int]:
    """Where its sentences end, white space behind them included; the last one at its end."""
    end = 0
    for part in split_sentences(language, piece):
        end += len(part)
        yield end


def _piece_end(text: str, start: int) -> int:
    """Where a piece that begins at `start` is cut: behind a sentence if possible, or else where `cut` would.

    What has no place to be cut stays whole, however long.
    """
    limit = start + _LONGEST_PIECE
    if len(text) <= limit:
        return len(text)
    ends: list[int] = [each.end() for each in _SENTENCE_END.finditer(text, start, limit)]
    if ends:
        return ends[-1]
    space = _SPACE.search(text, limit)
    return cut(text, start, limit) or (space.end() if space else len(text))


def cut(text: str, start: int, end: int, terms: Sequence[Term] = ()) -> int | None:
    """Where to cut a sentence that is too long, `text` from `start` to `end`; both parts hold more than white space.

    Near its middle: at a clause mark or conjunction if one is not far, or else at a space. None where there is no
    good place: in a base64 block, say. Scripts that use no spaces are cut between any two characters. No term is cut.
    """

    def outside(places: Iterable[int]) -> list[int]:
        return [place for place in places if not any(term.start < place < term.end for term in terms)]

    middle, quarter = (start + end) // 2, (end - start) // 4
    for marks in _CLAUSES:
        places = outside(each.end() for each in marks.finditer(text, middle - quarter, middle + quarter))
        if places:
            return _nearest(places, middle)
    places = outside(
        each.end() for each in _SPACE.finditer(text, start, end) if start < each.start() and each.end() < end
    )
    if places:
        return _nearest(places, middle)
    places = outside(
        each.start()
        for each in _WITHOUT_SPACES.finditer(text, start + 1, end)
        if not unicodedata.combining(text[each.start()])
    )
    return _nearest(places, middle) if places else None


def _nearest(places: list[int], middle: int) -> int:
    return min(places, key=lambda place: abs(place - middle))
