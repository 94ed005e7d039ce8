"""Plain texts to segments, without losing a character: joined, the segments' texts give the text back."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from service.text.glossary import NOTHING, Finder
from service.text.placeholders import find_verbatim
from service.text.segment import Fits, Segment, Term, segment_of
from service.text.sentences import closes, cut, pieces, sentence_ends

# As `str.splitlines` has them, one by one.
_LINE: Final = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]*+(?:\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])|.++")
# What begins an item of a list, a quoted line or a heading, in Markdown and elsewhere.
_BULLET: Final = re.compile(r"(?:\s*(?:[-*+•‣◦▪●·–—>]|#{1,6}|\[[ xX]\]|\(?[0-9]{1,3}[.)]|\(?[a-zA-Z]\))(?=\s))*\s*")
_CELL: Final = re.compile(r"[^\t]*\t*")


@dataclass(frozen=True)
class Splitter:
    """How texts are split: into sentences that a model `fits`, or that are copied as there is no place to cut them.

    With `restore_capitals`, sentences all in capitals are translated in lower case (`Segment.capitals`). Terms of the
    `glossary` are translated as it says.
    """

    fits: Fits
    restore_capitals: bool = True
    glossary: Finder = NOTHING
    joint: str = ""
    """What parts the translations of two sentences that no white space parts (`sentences.joint`)."""

    def split(self, text: str, language: str) -> Iterator[Segment]:
        """Sentences of `text`, line by line, and in a line cell by cell where there are tabs.

        Takes `text` apart only as far as it is asked.
        """
        return self.joined(self._segments(text, language))

    def joined(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        """With what is no sentence as a part of those around it."""
        last: Segment | None = None
        between: list[str] = []
        for found in segments:
            if not found.sentence:
                between.append(found.text)
                continue
            # What is no sentence belongs to the one before it, at the beginning to the first.
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

    def _segments(self, text: str, language: str) -> Iterator[Segment]:
        done = 0
        for line in _LINE.finditer(text):
            bullet = _BULLET.match(text, line.start(), line.end())
            assert bullet is not None
            if bullet.end() == line.end():
                continue  # with others like it as one
            if done < line.start():
                yield Segment(text[done : line.start()], "", "")
            before = bullet[0]
            for cell in _CELL.finditer(text, bullet.end(), line.end()):
                for segment in self.sentences(cell[0], language):
                    yield segment._replace(before=before + segment.before)
                    before = ""
            done = line.end()
        if done < len(text):
            yield Segment(text[done:], "", "")

    def sentences(self, text: str, language: str, kept: Sequence[Term] = ()) -> Iterator[Segment]:
        """Of a text that is a line, or a part of one; `kept` are copied beside what is found to be no language."""
        last = Segment("", "", "")
        for segment in self._sentences(text, language, kept):
            runs_on = last.sentence and segment.sentence and not (last.after or segment.before)
            yield segment._replace(lead=self.joint) if runs_on and not closes(segment.sentence[0]) else segment
            last = segment

    def _sentences(self, text: str, language: str, kept: Sequence[Term]) -> Iterator[Segment]:
        offset = 0
        for piece in pieces(text):
            own = [term for term in kept if offset <= term.start < offset + len(piece)]
            copied = [term._replace(start=term.start - offset, end=term.end - offset) for term in own]
            offset += len(piece)
            ends = list(sentence_ends(piece, language))
            terms = _apart([*self.glossary.find(piece, [0, *ends]), *_verbatim(piece), *copied])
            start = first = 0
            for end in ends:
                last = bisect_left(terms, end, first, key=lambda term: term.start)
                if last > first and terms[last - 1].end > end:
                    continue  # it goes on, as a term does
                yield from self._fitting(piece, start, end, terms[first:last])
                start, first = end, last

    def _fitting(self, text: str, start: int, end: int, terms: Sequence[Term]) -> Iterator[Segment]:
        """The sentence from `start` to `end`, in parts if it is too long for the model."""
        inside = [term._replace(start=term.start - start, end=term.end - start) for term in terms]
        segment = segment_of(text[start:end], inside, restore_capitals=self.restore_capitals)
        if not segment.translatable or self.fits(segment):
            yield segment
        elif (place := cut(text, start, end, terms)) is None:
            yield segment._replace(translatable=False)
        else:
            yield from self._fitting(text, start, place, [term for term in terms if term.end <= place])
            yield from self._fitting(text, place, end, [term for term in terms if term.end > place])


def _verbatim(piece: str) -> list[Term]:
    return [Term(start, end, piece[start:end], is_copy=True) for start, end in find_verbatim(piece)]


def _apart(terms: Iterable[Term]) -> list[Term]:
    """In the order of the text, without those that overlap a longer one, or one as long that comes before them."""
    found: list[Term] = []
    for term in sorted(terms, key=lambda each: each.start - each.end):
        place = bisect_left(found, term.start, key=lambda each: each.start)
        is_free = place == 0 or found[place - 1].end <= term.start
        if is_free and (place == len(found) or term.end <= found[place].start):
            found.insert(place, term)
    return found
