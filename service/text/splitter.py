"""Plain texts to segments, without losing a character: the segments' texts joined are the text."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from service.text.glossary import EMPTY_GLOSSARY, Finder
from service.text.placeholders import find_breaks, find_verbatim
from service.text.segment import Fits, Segment, Term, segment_of
from service.text.sentences import chunks, find_cut, sentence_ends
from service.text.unwritable import Unwritable

# The lines of `str.splitlines`, one by one.
_LINE: Final = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]*+(?:\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])|.++")
# The beginning of a list item, a quoted line or a heading, in Markdown and elsewhere.
BULLET: Final = re.compile(
    r"(?:\s*(?:[-*+•‣◦▪●·–—>]|#{1,6}|\[[ xX]\]|\(?[0-9]{1,3}[.)]|\(?[a-zA-Z]\)|\(?[ivx]{2,5}\)|[IVX]{2,5}\.)(?=\s))*\s*"
)
# Punctuation that ends the text before it: a full stop, a closing bracket or quotation mark.
_CLOSING_CATEGORIES: Final = frozenset({"Pe", "Pf", "Po"})
_CELL: Final = re.compile(r"[^\t]*\t*")


Splitting = Literal["lines", "sentences", "none"]
"""A text is split at line ends and after sentences, after sentences only (a line end is a space), or not at all."""


@dataclass(frozen=True)
class Splitter:
    """Splits texts into sentences that the model `fits`. Sentences that are too long and cannot be cut are copied.

    With `restore_capitals`, sentences in capitals are translated in lower case (`Segment.capitals`). The terms of a
    glossary, which `find_terms` finds, get its translations.
    """

    fits: Fits
    restore_capitals: bool = True
    find_terms: Finder = EMPTY_GLOSSARY.find
    separator: str = ""
    """Text between the translations of two sentences without white space between them (`sentence_separator`)."""
    splitting: Splitting | None = None
    """None is the format's default: "sentences" for HTML, whose line ends are spaces, "lines" for all others."""
    unwritable: Unwritable = Unwritable()  # noqa: RUF009  it cannot be changed
    """Finds the words that the model cannot write, which are copied."""

    def split(self, text: str, language: str) -> Iterator[Segment]:
        r"""Split `text` into sentences, line by line, and lines with tabs cell by cell; `\n` is a line end, too.

        Lazy: reads `text` only as far as segments are taken.
        """
        return self.merge_copied(self.split_cells(text, lambda cell: self.sentences(cell, language)))

    def merge_copied(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        """Attach segments without a sentence to the one before them, or at the beginning to the one after them."""
        last: Segment | None = None
        between: list[str] = []
        for found in segments:
            if not found.sentence:
                between.append(found.text)
                continue
            copied = "".join(between)
            between = []
            if last is None:
                found = found._replace(before=copied + found.before)
            else:
                yield last._replace(after=last.after + copied)
            last = found
        copied = "".join(between)
        if last is not None:
            yield last._replace(after=last.after + copied)
        elif copied:
            yield Segment(copied, "", "", translatable=False)

    def split_cells(self, text: str, split: Callable[[str], Iterator[Segment]]) -> Iterator[Segment]:
        r"""Split `text` line by line and cell by cell, and each cell by `split`; bullets stay before its sentences.

        Breaks that are written as escapes, such as `\n`, end a cell.
        """
        if self.splitting not in (None, "lines"):
            yield from split(text)
            return
        done = 0
        for line in _LINE.finditer(text):
            bullet = BULLET.match(text, line.start(), line.end())
            assert bullet is not None
            if bullet.end() == line.end():
                continue  # together with the following lines without a sentence
            if done < line.start():
                yield Segment(text[done : line.start()], "", "")
            before = bullet[0]
            for cell, is_break in _cells(text[bullet.end() : line.end()]):
                for segment in [Segment(cell, "", "")] if is_break else split(cell):
                    yield segment._replace(before=before + segment.before)
                    before = ""
            done = line.end()
        if done < len(text):
            yield Segment(text[done:], "", "")

    def sentences(self, text: str, language: str, kept: Sequence[Term] = ()) -> Iterator[Segment]:
        """Split a line, or a part of one, into sentences; the terms in `kept`, in order, are copied like URLs."""
        last = Segment("", "", "")
        for segment in self._sentences(text, language, kept):
            touches = last.sentence and segment.sentence and not (last.after or segment.before)
            is_separated = touches and unicodedata.category(segment.sentence[0]) not in _CLOSING_CATEGORIES
            yield segment._replace(separator=self.separator) if is_separated else segment
            last = segment

    def _sentences(self, text: str, language: str, kept: Sequence[Term]) -> Iterator[Segment]:
        offset = first_kept = 0
        for chunk in chunks(text):
            last_kept = bisect_left(kept, offset + len(chunk), first_kept, key=lambda term: term.start)
            own, first_kept = kept[first_kept:last_kept], last_kept
            copied = [term._replace(start=term.start - offset, end=term.end - offset) for term in own]
            offset += len(chunk)
            ends = [len(chunk)] if self.splitting == "none" else list(sentence_ends(chunk, language))
            given = list(self.find_terms(chunk, [0, *ends]))
            spans = find_verbatim(chunk, self.unwritable, given)
            verbatim = [Term(start, end, chunk[start:end], is_copy=True) for start, end in spans]
            terms = _without_overlaps([*given, *verbatim, *copied])
            start = first = 0
            for end in ends:
                last = bisect_left(terms, end, first, key=lambda term: term.start)
                if last > first and terms[last - 1].end > end:
                    continue  # a term continues after it, and so does the sentence
                yield from self._split_to_fit(chunk, start, end, terms[first:last])
                start, first = end, last

    def _split_to_fit(self, text: str, start: int, end: int, terms: Sequence[Term]) -> Iterator[Segment]:
        """Yield the sentence from `start` to `end`, in parts if it is too long for the model."""
        inside = [term._replace(start=term.start - start, end=term.end - start) for term in terms]
        segment = segment_of(text[start:end], inside, restore_capitals=self.restore_capitals)
        if not segment.translatable or self.fits(segment):
            yield segment
        elif (place := find_cut(text, start, end, terms)) is None:
            yield segment._replace(translatable=False)
        else:
            yield from self._split_to_fit(text, start, place, [term for term in terms if term.end <= place])
            yield from self._split_to_fit(text, place, end, [term for term in terms if term.end > place])


def _cells(line: str) -> Iterator[tuple[str, bool]]:
    """Yield the cells of a line with their tabs, and with True the breaks between them that are written as escapes."""
    done = 0
    for start, end in find_breaks(line):
        yield from ((cell[0], False) for cell in _CELL.finditer(line, done, start))
        yield line[start:end], True
        done = end
    yield from ((cell[0], False) for cell in _CELL.finditer(line, done))


def _without_overlaps(terms: Sequence[Term]) -> list[Term]:
    """Sort terms by position; of two that overlap the longer one stays, of equally long ones the first given."""
    taken = bytearray(max((term.end for term in terms), default=0))
    found: list[Term] = []
    for term in sorted(terms, key=lambda each: each.start - each.end):
        # No shorter term is taken yet, so one that overlaps has the first or the last character of this one.
        if not taken[term.start] and not taken[term.end - 1]:
            taken[term.start : term.end] = b"\1" * (term.end - term.start)
            found.append(term)
    return sorted(found, key=lambda each: each.start)
