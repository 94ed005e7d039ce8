"""Placement of a sentence's tags in its translation, by the alignment of the translation's tokens."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, groupby, pairwise
from typing import Final, NamedTuple

from service.text.segment import Aligned, Mark

_NUMBER: Final = re.compile("[0-9]{2,}")
_LINK: Final = re.compile(r"<a[\s>]", re.IGNORECASE)
_RAISED: Final = re.compile(r"<su[bp][\s>]", re.IGNORECASE)


def place_marks(sentence: str, marks: Sequence[Mark], parts: Sequence[Aligned]) -> str:
    """Return the parts with the sentence's marks among them, each mark once and nested as in the sentence.

    An element contains the words aligned with its words in the sentence; if other elements' words are among them, only
    the longest run of its own. If no word is aligned with them, a mark around words contains the free word aligned
    nearest to it, so that what was emphasised still is. Where no word is free, a link and light markup take one from
    the end of a neighbouring element, since an empty link cannot be followed, and light markup would become visible. A
    mark that raises a part of a word, and any other, follows the word aligned with the nearest word before it.
    A number that marks divide is divided in the translation, too, if it is the same there: ten to the power of six
    would become 106.
    """
    divided = _divided_numbers(sentence, _borders(marks))
    words = [part for word in _words(sentence, parts) for part in _divide(word, divided)]
    return _Placement(sentence, words).place_all(marks)


def _borders(marks: Sequence[Mark]) -> list[int]:
    borders: set[int] = set()
    waiting = [*marks]
    while waiting:
        mark = waiting.pop()
        borders |= {mark.start, mark.end}
        waiting += mark.inside
    return sorted(borders)


def _divided_numbers(sentence: str, borders: Sequence[int]) -> dict[int, Sequence[Aligned]]:
    """Return the pieces of each number of the sentence that has a border inside, by all its positions."""
    pieces: dict[int, Sequence[Aligned]] = {}
    for number in _NUMBER.finditer(sentence):
        first, last = number.span()
        if cuts := borders[bisect_right(borders, first) : bisect_left(borders, last)]:
            divided = [Aligned(sentence[start:end], start) for start, end in pairwise([first, *cuts, last])]
            pieces |= dict.fromkeys(range(first, last), divided)
    return pieces


def _divide(word: Aligned, divided: Mapping[int, Sequence[Aligned]]) -> Sequence[Aligned]:
    """Return the pieces of a word that is a divided number of the sentence, or the word."""
    pieces = divided.get(-1 if word.place is None else word.place, ())
    number = word.text.lstrip()
    if not pieces or "".join(piece.text for piece in pieces) != number:
        return [word]
    return [pieces[0]._replace(text=word.text.removesuffix(number) + pieces[0].text), *pieces[1:]]


def _words(sentence: str, parts: Sequence[Aligned]) -> Iterator[Aligned]:
    """Join parts to words, so that tags stand between words. A number is a word by itself: it may be a footnote's."""
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
    """Return True for two neighbouring characters of one word."""
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
        self._source_words = _SourceWords(sentence)

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
        follows = self._sentence[max(mark.start - 1, 0) : mark.start].isspace()
        precedes = self._sentence[mark.start : mark.start + 1].isspace()
        if mark.closing and mark.start < mark.end:
            return ("", space) if precedes else (space, "")
        if not follows:
            return "", space
        return (space[:1], space[1:] or space[:1]) if precedes else (space, "")

    def _ranges(self, marks: Sequence[Mark], first: int, last: int) -> list[tuple[int, int]]:
        """Return the range of words that each mark contains. Takes time in proportion to marks and words together."""
        held = self._held_by_alignment(marks, first, last)
        taken = {place for start, end in held.values() for place in range(start, end)}
        free = _FreeWords([word for word in self._aligned(first, last) if word.number not in taken], self._source_words)
        for number, mark in enumerate(marks):
            if number not in held and self._needs_words(mark) and (word := free.take_nearest(mark)) is not None:
                held[number] = word, word + 1
        fragile = [number for number, mark in enumerate(marks) if _breaks_if_empty(mark) and self._has_words(mark)]
        self._take_from_neighbours(fragile, held)
        empty = _EmptyRanges(self._words, first, last, held.values())
        return [held.get(number) or empty.range_of(mark) for number, mark in enumerate(marks)]

    def _held_by_alignment(self, marks: Sequence[Mark], first: int, last: int) -> dict[int, tuple[int, int]]:
        """Return the range of each mark with aligned words, by the index of the mark; ranges do not overlap."""
        owners = [*_owners(marks, [word.place for word in self._words[first:last]])]
        owned = [*accumulate((owner is not None for owner in owners), initial=0)]
        places: dict[int, list[int]] = {}
        runs: dict[int, list[int]] = {}
        for owner, grouped in groupby(range(len(owners)), key=owners.__getitem__):
            if owner is not None:
                run = [*grouped]
                places.setdefault(owner, []).extend(run)
                runs[owner] = max(runs.get(owner, []), run, key=len)
        held: dict[int, tuple[int, int]] = {}
        for owner, own in places.items():
            has_others = owned[own[-1] + 1] - owned[own[0]] > len(own)
            inside = runs[owner] if has_others else own
            held[owner] = first + inside[0], first + inside[-1] + 1
        return held

    def _needs_words(self, mark: Mark) -> bool:
        """Return True for a pair of marks around words, unless it raises or lowers a part of one."""
        is_part = self._is_inside(mark.start) or self._is_inside(mark.end)
        return self._has_words(mark) and not (is_part and _RAISED.match(mark.opening))

    def _has_words(self, mark: Mark) -> bool:
        return any(map(str.isalnum, self._sentence[mark.start : mark.end]))

    def _take_from_neighbours(self, numbers: Iterable[int], held: dict[int, tuple[int, int]]) -> None:
        """Give each mark without words one of the next mark with words, or else of the one before, which keeps one."""
        for is_next in (True, False):
            holders = sorted(held)
            without = [number for number in numbers if number not in held]
            for place, group in groupby(without, key=partial(bisect_left, holders)):
                index = place if is_next else place - 1
                if not 0 <= index < len(holders):
                    continue
                start, end = held[holders[index]]
                words = [each for each in range(start, end) if any(map(str.isalnum, self._words[each].text))]
                takers = [*group]
                count = min(len(words) - 1, len(takers))
                if count < 1:
                    continue
                if is_next:
                    owners, cuts = [*takers[-count:], holders[index]], [word + 1 for word in words[:count]]
                else:
                    owners, cuts = [holders[index], *takers[:count]], words[-count:]
                held.update(zip(owners, pairwise([start, *cuts, end]), strict=True))

    def _is_inside(self, place: int) -> bool:
        """Return True for a position within a word of the sentence. `20<sup>th</sup>` is one word."""
        around = self._sentence[max(place - 1, 0) : place + 1]
        return len(around) == 2 and around.isalnum()

    def _aligned(self, first: int, last: int) -> Iterator["_AlignedWord"]:
        """Yield the words in a range that are aligned and have letters or digits."""
        for number, word in enumerate(self._words[first:last], first):
            if word.place is not None and any(map(str.isalnum, word.text)):
                yield _AlignedWord(word.place, number)


def _breaks_if_empty(mark: Mark) -> bool:
    """Return True for a link, which nobody could follow, and for light markup, which would become visible."""
    return _LINK.match(mark.opening) is not None or not mark.opening.startswith("<")


class _AlignedWord(NamedTuple):
    """A word's position in the sentence by its alignment, and its index in the translation."""

    place: int
    number: int


class _FreeWords:
    """The words outside of all elements: links take the nearest of them."""

    def __init__(self, words: Iterable[_AlignedWord], source_words: "_SourceWords") -> None:
        self._words = sorted(words)
        self._source_words = source_words

    def take_nearest(self, mark: Mark) -> int | None:
        """Remove the word aligned nearest to a mark, and return its index; of equally near ones the first after it, or
        else the first before it. None if all words are taken."""
        after = bisect_left(self._words, (mark.end, -1))
        before = bisect_left(self._words, (mark.start, -1))
        choices: list[tuple[int, int]] = []
        if after < len(self._words):
            choices.append((self._words[after].place - mark.end, after))
        if before > 0:
            end = min(self._source_words.ends[self._words[before - 1].place], mark.start)
            begin = bisect_left(self._words, (self._source_words.begins[end], -1))
            first = min(range(begin, before), key=lambda each: self._words[each].number)
            choices.append((mark.start - end, first))
        if not choices:
            return None
        # The first of two equally near words is the one after the mark.
        _, nearest = min(choices, key=lambda choice: choice[0])
        return self._words.pop(nearest).number


class _SourceWords:
    """The beginnings and ends of a sentence's words."""

    def __init__(self, sentence: str) -> None:
        self.ends = [*range(len(sentence) + 1)]
        """The end of the word at each position; outside of words, the position itself."""
        for place in reversed(range(len(sentence))):
            if sentence[place].isalnum():
                self.ends[place] = max(self.ends[place + 1], place + 1)
        self.begins = [0]
        """The beginning of the word before each position, as if the sentence ended there."""
        for place, character in enumerate(sentence):
            self.begins.append(self.begins[-1] if character.isalnum() else place + 1)


class _EmptyRanges:
    """Positions of marks without words: after the word aligned nearest before them, outside of other marks."""

    def __init__(self, words: Sequence[Aligned], first: int, last: int, held: Iterable[tuple[int, int]]) -> None:
        aligned = enumerate(words[first:last], first + 1)
        self._after = sorted((word.place, end) for end, word in aligned if word.place is not None)
        self._first = first
        self._held = sorted(held)

    def range_of(self, mark: Mark) -> tuple[int, int]:
        number = bisect_left(self._after, (mark.start, -1))
        place = self._after[number - 1][1] if number else self._first
        inside = bisect_left(self._held, (place, -1)) - 1
        if inside >= 0 and place < self._held[inside][1]:
            place = self._held[inside][1]
        return place, place


def _owners(marks: Sequence[Mark], places: Iterable[int | None]) -> Iterator[int | None]:
    """Yield the index of the mark around each position in the sentence; None outside of marks."""
    around = [number for number, mark in enumerate(marks) if mark.start < mark.end]
    starts = [marks[number].start for number in around]
    for place in places:
        found = -1 if place is None else bisect_right(starts, place) - 1
        is_inside = found >= 0 and place is not None and place < marks[around[found]].end
        yield around[found] if is_inside else None
