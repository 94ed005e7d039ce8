"""Where the tags of a sentence go in its translation, by the alignment of its tokens."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from service.text.segment import Mark

_LINK: Final = re.compile(r"<a[\s>]", re.IGNORECASE)


class Aligned(NamedTuple):
    """A part of a translation, written as it is to be, and the character of the sentence that it comes from."""

    text: str
    place: int | None


def place_marks(sentence: str, marks: Sequence[Mark], parts: Sequence[Aligned]) -> str:
    """The parts, and the marks of the sentence between them: each once, and as they hold one another.

    An element holds the words that come from what it holds in the sentence: where words of others are among them, the
    longest run of its own. A link whose words were not translated holds the word that comes from what is next to it, if
    that is no other's: one that holds nothing could not be followed. Other marks are put behind the word that comes
    from what is next before them.
    """
    return _Placement(sentence, list(_words(sentence, parts))).all(marks)


def _words(sentence: str, parts: Sequence[Aligned]) -> Iterator[Aligned]:
    """Parts joined to words: tokens are less, and a tag is not put into one. A number is a word by itself: it may be
    that of a footnote."""
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
    """Whether there is no word's edge between two characters that follow each other."""
    return before.isalnum() and after.isalnum() and before.isdigit() == after.isdigit()


def _word(sentence: str, parts: Sequence[Aligned]) -> Aligned:
    text = "".join(part.text for part in parts)
    place = max(parts, key=lambda part: len(part.text)).place
    # What a full stop or a comma looks at says nothing, unless it is one.
    is_mark = not any(map(str.isalnum, text))
    return Aligned(text, None if place is None or (is_mark and sentence[place].isalnum()) else place)


class _Placement:
    """`words` are those of the translation; a range of them is from one up to another."""

    def __init__(self, sentence: str, words: Sequence[Aligned]) -> None:
        self._sentence = sentence
        self._words = words

    def all(self, marks: Sequence[Mark]) -> str:
        return self._render(marks, 0, len(self._words), self._lead(0))

    def _render(self, marks: Sequence[Mark], first: int, last: int, lead: str) -> str:
        """The words of a range with marks among them; `lead` is the white space before the first."""
        beginning: dict[int, list[tuple[Mark, int]]] = {}
        for mark, (start, end) in zip(marks, self._ranges(marks, first, last), strict=True):
            beginning.setdefault(start, []).append((mark, end))
        written: list[str] = []
        number = first
        while True:
            # What holds no word comes before what does.
            for mark, end in sorted(beginning.get(number, []), key=lambda item: item[1]):
                space, lead = self._split_lead(mark, lead)
                inside = self._render(mark.inside, number, end, lead if end > number else "")
                written += [space, mark.opening, inside, mark.closing]
                if end > number:
                    number, lead = end, self._lead(end)
                    break
            else:
                if number == last:
                    return "".join(written)
                written += [lead, self._words[number].text.lstrip()]
                number += 1
                lead = self._lead(number)

    def _lead(self, number: int) -> str:
        text = self._words[number].text if number < len(self._words) else ""
        return text[: len(text) - len(text.lstrip())]

    def _split_lead(self, mark: Mark, lead: str) -> tuple[str, str]:
        """What of the white space before a word goes before the mark, and what behind it: as in the sentence."""
        follows = self._sentence[: mark.start][-1:].isspace()
        precedes = self._sentence[mark.start :][:1].isspace()
        if mark.closing:
            return ("", lead) if precedes else (lead, "")
        if not follows:
            return "", lead
        return (lead[:1], lead[1:] or lead[:1]) if precedes else (lead, "")

    def _ranges(self, marks: Sequence[Mark], first: int, last: int) -> list[tuple[int, int]]:
        """Which words each mark holds."""
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
            if free and number not in held and self._is_link_with_words(mark):
                nearest = min(free, key=lambda word: (self._distance(mark, word[1]), word[0]))
                free.remove(nearest)
                held[number] = nearest[0], nearest[0] + 1
        return [held.get(number) or self._behind(mark, first, last, held.values()) for number, mark in enumerate(marks)]

    def _owner(self, marks: Sequence[Mark], place: int | None) -> int | None:
        if place is None:
            return None
        return next((number for number, mark in enumerate(marks) if mark.start <= place < mark.end), None)

    def _is_link_with_words(self, mark: Mark) -> bool:
        return _LINK.match(mark.opening) is not None and any(map(str.isalnum, self._sentence[mark.start : mark.end]))

    def _aligned_words(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The numbers of those in a range that have letters or digits, and where they come from."""
        for number, word in enumerate(self._words[first:last], first):
            if word.place is not None and any(map(str.isalnum, word.text)):
                yield number, word.place

    def _distance(self, mark: Mark, place: int) -> tuple[int, bool]:
        """From a mark to a place; of two as far, the one behind the mark comes first."""
        if place >= mark.end:
            return place - mark.end, False
        end = place
        while end < mark.start and self._sentence[end].isalnum():
            end += 1
        return mark.start - end, True

    def _behind(self, mark: Mark, first: int, last: int, held: Iterable[tuple[int, int]]) -> tuple[int, int]:
        """No words, behind the one that comes from what is next before the mark; not in the middle of another mark."""
        words = enumerate(self._words[first:last], first + 1)
        before = [(word.place, end) for end, word in words if word.place is not None and word.place < mark.start]
        place = max(before, default=(0, first))[1]
        place = next((end for start, end in held if start < place < end), place)
        return place, place
