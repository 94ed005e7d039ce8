"""Placement of a sentence's tags in its translation, by the alignment of the translation's tokens."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from service.text.segment import Aligned, Mark

_LINK: Final = re.compile(r"<a[\s>]", re.IGNORECASE)


def place_marks(sentence: str, marks: Sequence[Mark], parts: Sequence[Aligned]) -> str:
    """Return the parts with the sentence's marks among them, each mark once and nested as in the sentence.

    An element contains the words aligned with its words in the sentence; if other elements' words are among them, only
    the longest run of its own. A link without aligned words contains the free word aligned nearest to it, as an empty
    link cannot be followed; so does light markup, whose marks would become visible around nothing. Any other mark
    follows the word aligned with the nearest word before it.
    """
    return _Placement(sentence, list(_words(sentence, parts))).place_all(marks)


def _words(sentence: str, parts: Sequence[Aligned]) -> Iterator[Aligned]:
    """Join parts to words, as no tag is placed within a word. A number is a word by itself: it may be a footnote's."""
    word: list[Aligned] = []
    for part in parts:
        if not part.text:
            continue
        if word and not _is_within_word(word[-1].text[-1], part.text[0]):
            yield _word(sentence, word)
            word = []
        word.append(part)
    if word:
        yield _word(sentence, word)


def _is_within_word(before: str, after: str) -> bool:
    """Return True if no word ends between two neighbouring characters."""
    return before.isalnum() and after.isalnum() and before.isdigit() == after.isdigit()


def _word(sentence: str, parts: Sequence[Aligned]) -> Aligned:
    text = "".join(part.text for part in parts)
    place = max(parts, key=lambda part: len(part.text)).place
    # The alignment of a full stop or comma has no meaning, unless it is with another one.
    is_mark = not any(map(str.isalnum, text))
    return Aligned(text, None if place is None or (is_mark and sentence[place].isalnum()) else place)


class _Placement:
    """A sentence and the words of its translation; ranges of words are given by first and last index."""

    def __init__(self, sentence: str, words: Sequence[Aligned]) -> None:
        self._sentence = sentence
        self._words = words

    def place_all(self, marks: Sequence[Mark]) -> str:
        return self._render(marks, 0, len(self._words), self._space_before(0))

    def _render(self, marks: Sequence[Mark], first: int, last: int, space: str) -> str:
        """Return the words of a range with marks among them; `space` is the white space before the first word."""
        beginning: dict[int, list[tuple[Mark, int]]] = {}
        for mark, (start, end) in zip(marks, self._ranges(marks, first, last), strict=True):
            beginning.setdefault(start, []).append((mark, end))
        written: list[str] = []
        number = first
        while True:
            # Marks without words come before marks with words.
            for mark, end in sorted(beginning.get(number, []), key=lambda item: item[1]):
                outside, space = self._split_space(mark, space)
                inside = self._render(mark.inside, number, end, space if end > number else "")
                written += [outside, mark.opening, inside, mark.closing]
                if end > number:
                    number, space = end, self._space_before(end)
                    break
            else:
                if number == last:
                    return "".join(written)
                written += [space, self._words[number].text.lstrip()]
                number += 1
                space = self._space_before(number)

    def _space_before(self, number: int) -> str:
        text = self._words[number].text if number < len(self._words) else ""
        return text[: len(text) - len(text.lstrip())]

    def _split_space(self, mark: Mark, space: str) -> tuple[str, str]:
        """Split the white space before a word into the parts before and after the mark, as in the sentence."""
        follows = self._sentence[: mark.start][-1:].isspace()
        precedes = self._sentence[mark.start :][:1].isspace()
        if mark.closing and mark.start < mark.end:
            return ("", space) if precedes else (space, "")
        if not follows:
            return "", space
        return (space[:1], space[1:] or space[:1]) if precedes else (space, "")

    def _ranges(self, marks: Sequence[Mark], first: int, last: int) -> list[tuple[int, int]]:
        """Return the range of words that each mark contains."""
        owners = [self._owner(marks, word.place) for word in self._words[first:last]]
        held: dict[int, tuple[int, int]] = {}
        for owner in {each for each in owners if each is not None}:
            places = [place for place, each in enumerate(owners) if each == owner]
            start, end = places[0], places[-1] + 1
            if {*owners[start:end]} - {owner, None}:
                runs = [list(run) for each, run in groupby(range(len(owners)), key=owners.__getitem__) if each == owner]
                longest = max(runs, key=len)
                start, end = longest[0], longest[-1] + 1
            held[owner] = first + start, first + end
        taken = {place for start, end in held.values() for place in range(start, end)}
        free = [(number, place) for number, place in self._aligned_words(first, last) if number not in taken]
        for number, mark in enumerate(marks):
            if free and number not in held and self._needs_words(mark):
                nearest = min(free, key=lambda word: (self._distance(mark, word[1]), word[0]))
                free.remove(nearest)
                held[number] = nearest[0], nearest[0] + 1
        return [
            held.get(number) or self._empty_range(mark, first, last, held.values()) for number, mark in enumerate(marks)
        ]

    def _owner(self, marks: Sequence[Mark], place: int | None) -> int | None:
        if place is None:
            return None
        return next((number for number, mark in enumerate(marks) if mark.start <= place < mark.end), None)

    def _needs_words(self, mark: Mark) -> bool:
        """Return True for a link, or a pair of marks that are no tags, around words."""
        is_visible = _LINK.match(mark.opening) is not None or not mark.opening.startswith("<")
        return is_visible and any(map(str.isalnum, self._sentence[mark.start : mark.end]))

    def _aligned_words(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the index and the aligned position of each word in a range that has letters or digits."""
        for number, word in enumerate(self._words[first:last], first):
            if word.place is not None and any(map(str.isalnum, word.text)):
                yield number, word.place

    def _distance(self, mark: Mark, place: int) -> tuple[int, bool]:
        """Return a sort key for the distance from a mark to a position; positions after the mark win ties."""
        if place >= mark.end:
            return place - mark.end, False
        end = place
        while end < mark.start and self._sentence[end].isalnum():
            end += 1
        return mark.start - end, True

    def _empty_range(self, mark: Mark, first: int, last: int, held: Iterable[tuple[int, int]]) -> tuple[int, int]:
        """Return where a mark without words goes: after the word aligned nearest before it, and in no other mark."""
        words = enumerate(self._words[first:last], first + 1)
        before = [(word.place, end) for end, word in words if word.place is not None and word.place < mark.start]
        place = max(before, default=(0, first))[1]
        place = next((end for start, end in held if start < place < end), place)
        return place, place
