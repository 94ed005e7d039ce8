"""Positions at which a text may be cut: after its sentences, and within a sentence that is too long for a model."""

import logging
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import regex
from sentencex import segment as split_sentences

from service.errors import is_error
from service.text.segment import Term

logger = logging.getLogger(__name__)

_LONGEST_CHUNK: Final = 2000  # characters
_LONGEST_SPLIT: Final = 4000  # characters; sentencex takes quadratic time, and longer chunks cannot be cut
# sentencex 1.1 panics on a capital, a space of several bytes, and a full stop: "vitamin B\u00a0."
_WIDE_SPACE_BEFORE_FULL_STOP: Final = regex.compile(r"[^\P{Z}\x20](?=\.)")
# It splits at these full stops, too; the last one of av. J.-C. may end a sentence.
_ABBREVIATION: Final = regex.compile(
    r"(?<!\w)\p{Lu}\.-\p{Lu}(?:(?<=\b(?:avant|av\.|après|apr?\.)\s.{4})(?=\.\s+\p{Lu})|\.)"
    r"|\b(?:p\.\s?ex|c\.-à-d)\."
    r"|(?<![\w.-])M\.(?=\s(?:\p{Lu}|le\s|la\s|et\s))|\b(?:[Dd]r|[Ii]ncl|Pr|Mme|Mlle|Bât|bd|boul)\.(?=\s[\p{Lu}\d])"
    r"|(?<=\b(?:avec|chez|de|et|par|que|selon)\s)\p{Lu}\.(?=\s\p{Lu}\p{Ll})|\b[Ee]st\.(?=\s[12]\d{3}(?:$|[.,;:)]))"
    # Before a number or a word that begins no sentence.
    r"|\b(?:[Aa]pprox|[Ee]nv|max|min|[Rr]éf|[Dd]ép|[Aa]rr|[Ed]d|[Ee]st|[Dd]ept|[Ii]ncl|tbsp|tsp|lbs?|oz|yrs?|hrs?|mos|wks"
    r"|(?<=\d )c|(?<=à )[sc]|n)\.(?=\s[\p{Ll}\d$£€:])"
    r"|\b(?:[Tt][ée]l|Nos?)\.(?=\s[\d:])|^\s*(?:Max|Min)\.(?=\s\d)|\b(?:[Cc]h|[Vv]ol)\.(?=\s(?:\d{1,3}|[IVX]+)(?:$|[,.;:)]))"
    # Days and months: la mer. et is the sea.
    r"|(?:^\s*(?:[Ll]un|[Mm]ar|[Mm]er|[Jj]eu|[Vv]en|[Ss]am|[Dd]im)|(?<=[,(/–—-]\s?|\b(?:et|ou|ouvert|fermé)\s)(?:lun|mar|mer|jeu|ven|sam|dim)"
    r"|(?<=\b(?:au|du|le)\s)(?:lun|mar|ven|sam|dim|(?:mer|jeu)(?=\.\s\d{1,2}\s\p{L})))\.(?=\s?[,/–—-]|\s[\p{Ll}\d(])"
    r"|\b(?:Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|(?<!\b[Tt]he\s)Sun)\.(?=\s?[,/–—-]|\s[\p{Ll}\d&(])"
    r"|(?<=\d(?:er)?\s|\b(?:de|en|début|fin|mi)[\s-])(?:janv|févr?|avr|juil|sept|oct|nov|déc)\.(?=\s?[,/–—-]|\s[\p{Ll}\d(!?;:»])"
    r"|\b(?:Jan|Feb|Apr|Ju[nl]|Aug|Sept?|Oct|Nov|Dec)\.(?=\s\d)"
    r"|(?<=\d\s?)[ap]\.m\.(?=,?\s(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)"
)
_INITIAL: Final = regex.compile(r"\p{Lu}\.$")
_SENTENCE_END: Final = regex.compile(r"[.!?…]\s+|[。！？｡।॥]\s*")
# Positions at which a long sentence may be cut, the best first: after a clause, after a part of a clause, before a
# conjunction of the languages that most models know.
_CLAUSES: Final = (
    regex.compile(r"[;:—–؛]\s+|[；：]\s*"),
    regex.compile(r"[,،]\s+|[，、]\s*"),
    # Begins only where white space does, or the search: retrying at each space of a run would take quadratic time.
    regex.compile(
        r"(?:\G|(?<!\s))\s++"
        r"(?=(?:and|but|or|because|et|mais|ou|car|und|aber|oder|weil|y|pero|porque|e|ma|perché|mas)\s)"
    ),
)
_SPACE: Final = regex.compile(r"\s+")
UNSPACED_LETTER: Final = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]"
"""A pattern for one letter of a script that puts no space between words."""
_UNSPACED_LETTER: Final = regex.compile(UNSPACED_LETTER)
_SPACE_OR_LETTER: Final = regex.compile(rf"\s+|(?={UNSPACED_LETTER})")

_UNSPACED_LANGUAGES: Final = frozenset("bo dz ja km lo lzh my th wuu yue zh".split())
"""Languages that put no space between sentences."""


def sentence_separator(source: str, target: str) -> str:
    """Return the separator of two translated sentences that nothing separates in the source language."""
    unspaced = (source.partition("-")[0] in _UNSPACED_LANGUAGES, target.partition("-")[0] in _UNSPACED_LANGUAGES)
    return " " if unspaced == (True, False) else ""


def is_unspaced(character: str) -> bool:
    """Return True for a letter of a script that puts no space between words."""
    return _UNSPACED_LETTER.fullmatch(character) is not None


def chunks(text: str) -> Iterator[str]:
    """Cut a long text into chunks, so that its first sentence is translated before the rest has been read."""
    start = 0
    while start < len(text):
        end = _chunk_end(text, start)
        yield text[start:end]
        start = end


def sentence_ends(chunk: str, language: str) -> Iterator[int]:
    """Yield the end of each sentence, with the white space after it; the last one ends with the chunk.

    A chunk that is longer than usual is one sentence.
    """
    if len(chunk) > _LONGEST_SPLIT:
        yield len(chunk)
        return
    end = 0
    for length in _sentence_lengths(chunk, language):
        end += length
        yield end


def _sentence_lengths(chunk: str, language: str) -> list[int]:
    chunk = _WIDE_SPACE_BEFORE_FULL_STOP.sub(" ", chunk)
    chunk = _ABBREVIATION.sub(lambda found: found[0].replace(".", "_"), chunk)
    try:
        lengths = [len(part) for part in split_sentences(language, chunk)]
        # It cuts R.S.V.P. and U.S. at the beginning of a text.
        return [sum(lengths[:2]), *lengths[2:]] if lengths and _INITIAL.match(chunk, 0, lengths[0]) else lengths
    except BaseException as panic:
        if not is_error(panic):
            raise
        logger.warning("the sentence splitter failed on a text, which is split at its full stops", exc_info=True)
        ends = {0, len(chunk), *(each.end() for each in _SENTENCE_END.finditer(chunk))}
        return [end - start for start, end in pairwise(sorted(ends))]


def _chunk_end(text: str, start: int) -> int:
    """Return the end of the chunk from `start`: after a sentence if possible, otherwise where `find_cut` would cut.

    Text that cannot be cut stays in one chunk, however long.
    """
    limit = start + _LONGEST_CHUNK
    if len(text) <= limit:
        return len(text)
    ends: list[int] = [each.end() for each in _SENTENCE_END.finditer(text, start, limit)]
    if ends:
        return ends[-1]
    if place := find_cut(text, start, limit):
        return place
    for found in _SPACE_OR_LETTER.finditer(text, limit):
        if found[0] or not unicodedata.combining(text[found.start()]):
            end: int = found.end()
            return end
    return len(text)


def find_cut(text: str, start: int, end: int, terms: Sequence[Term] = ()) -> int | None:
    """Return where to cut the sentence from `start` to `end`; both parts contain more than white space.

    The cut is near the middle: at a clause mark or conjunction close to it, otherwise at a space. Scripts without
    spaces are cut between any two characters. No term is cut; `terms` are in order, without overlaps. None if there
    is no good position, as in a base64 block.
    """
    ends = [term.end for term in terms]

    def is_outside(place: int) -> bool:
        number = bisect_right(ends, place)
        return number == len(ends) or terms[number].start >= place

    middle, quarter = (start + end) // 2, (end - start) // 4
    letters = _UNSPACED_LETTER.finditer(text, start + 1, end)
    candidates: Iterable[Iterable[int]] = (
        *((each.end() for each in marks.finditer(text, middle - quarter, middle + quarter)) for marks in _CLAUSES),
        (each.end() for each in _SPACE.finditer(text, start, end) if start < each.start() and each.end() < end),
        (each.start() for each in letters if not unicodedata.combining(text[each.start()])),
    )
    for places in candidates:
        if possible := [*filter(is_outside, places)]:
            return min(possible, key=lambda place: abs(place - middle))
    return None
