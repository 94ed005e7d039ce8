"""The placement of tags: the same as by a search through everything, in time that grows with the sentence alone."""

import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.markup.tag_placement import place_marks
from service.text.segment import Aligned, Mark
from tests.service.text.steps import steps_of

_MOST_GROWTH = 2.2
_FEW_STEPS = 1000

Build = Callable[[int], tuple[str, list[Mark], list[Aligned]]]


def _ranges(sentence: str, marks: Sequence[Mark], words: Sequence[Aligned]) -> list[tuple[int, int]]:
    """Find the range of words of each mark by looking at every word for every mark."""
    owners = [
        next(
            (i for i, mark in enumerate(marks) if word.place is not None and mark.start <= word.place < mark.end), None
        )
        for word in words
    ]
    held: dict[int, tuple[int, int]] = {}
    for owner in {each for each in owners if each is not None}:
        places = [place for place, each in enumerate(owners) if each == owner]
        start, end = places[0], places[-1] + 1
        if {*owners[start:end]} - {owner, None}:
            runs = [[*run] for each, run in groupby(range(len(owners)), key=owners.__getitem__) if each == owner]
            longest = max(runs, key=len)
            start, end = longest[0], longest[-1] + 1
        held[owner] = start, end
    taken = {place for start, end in held.values() for place in range(start, end)}
    free = [(i, word.place) for i, word in enumerate(words) if word.place is not None and i not in taken]
    for number, mark in enumerate(marks):
        if free and number not in held and _needs_words(sentence, mark):
            nearest = min(free, key=lambda word: (_distance(sentence, mark, word[1]), word[0]))
            free.remove(nearest)
            held[number] = nearest[0], nearest[0] + 1
    fragile = [i for i, mark in enumerate(marks) if mark.opening == "<a>" and _needs_words(sentence, mark)]
    for step in (1, -1):
        for giver, (start, end) in sorted(held.items()):
            neighbour = giver - step
            takers: list[int] = []
            while 0 <= neighbour < len(marks) and neighbour not in held:
                takers += [neighbour] * (neighbour in fragile)
                neighbour -= step
            takers = takers[: end - start - 1]
            # A mark that is farther away has a word that is farther away.
            for i, taker in enumerate(reversed(takers)):
                place = start + i if step > 0 else end - 1 - i
                held[taker] = place, place + 1
            held[giver] = (start + len(takers), end) if step > 0 else (start, end - len(takers))
    return [held.get(number) or _empty(mark, words, held.values()) for number, mark in enumerate(marks)]


def _needs_words(sentence: str, mark: Mark) -> bool:
    has_words = any(map(str.isalnum, sentence[mark.start : mark.end]))
    ends = (sentence[max(place - 1, 0) : place + 1] for place in (mark.start, mark.end))
    return has_words and (mark.opening == "<a>" or not any(len(end) == 2 and end.isalnum() for end in ends))


def _distance(sentence: str, mark: Mark, place: int) -> tuple[int, bool]:
    if place >= mark.end:
        return place - mark.end, False
    while place < mark.start and sentence[place].isalnum():
        place += 1
    return mark.start - place, True


def _empty(mark: Mark, words: Sequence[Aligned], held: Iterable[tuple[int, int]]) -> tuple[int, int]:
    before = [(word.place, i + 1) for i, word in enumerate(words) if word.place is not None and word.place < mark.start]
    place = max(before, default=(0, 0))[1]
    place = next((end for start, end in held if start < place < end), place)
    return place, place


@st.composite
def _cases(draw: st.DrawFn) -> tuple[str, list[Mark], list[Aligned]]:
    sentence = draw(st.text(st.sampled_from("ab ,"), min_size=1, max_size=20))
    places = sorted(draw(st.lists(st.integers(0, len(sentence)), max_size=12)))
    spans = [(places[i], places[i + 1]) for i in range(0, len(places) - 1, 2)]
    opening = st.sampled_from(["<a>", "<sup>"])
    marks = [Mark(start, end, draw(opening), "</>") for start, end in spans]
    aligned = st.none() | st.integers(0, len(sentence) - 1)
    return sentence, marks, [Aligned(f" w{i}", draw(aligned)) for i in range(draw(st.integers(0, 10)))]


@given(_cases())
def test_marks_stand_where_a_search_through_everything_puts_them(case: tuple[str, list[Mark], list[Aligned]]) -> None:
    sentence, marks, words = case
    numbered = [mark._replace(opening=f"{mark.opening[:-1]} {i}>", closing=f"</{i}>") for i, mark in enumerate(marks)]
    placed = place_marks(sentence, numbered, words)
    for i, (start, end) in enumerate(_ranges(sentence, marks, words)):
        opening, closing = placed.index(f" {i}>"), placed.index(f"</{i}>")
        inside = [place for place, word in enumerate(words) if opening < placed.find(word.text.strip()) < closing]
        assert inside == [*range(start, end)]


def test_a_number_is_divided_where_marks_divide_it() -> None:
    power = [Mark(2, 3, "<sup>", "</sup>")]
    cells = [Aligned(" cellules", 5)]
    assert place_marks("106 cells", power, [Aligned("106", 0), *cells]) == "10<sup>6</sup> cellules"
    assert place_marks("106 cells", power, [Aligned("10", 0), Aligned("6", 2), *cells]) == "10<sup>6</sup> cellules"
    outer = [Mark(1, 3, "<b>", "</b>", power)]
    assert place_marks("106 cells", outer, [Aligned(" 106", 1), *cells]) == " 1<b>0<sup>6</sup></b> cellules"
    assert place_marks("106 cells", power, [Aligned("107", 2), *cells]) == "<sup>107</sup> cellules", "another number"


def _sentence(size: int) -> str:
    return "word " * size


def _words(size: int, place: Callable[[int], int]) -> list[Aligned]:
    return [Aligned(" mot", 5 * (place(number) % size)) for number in range(size)]


def _empty_at_one_place(size: int) -> tuple[str, list[Mark], list[Aligned]]:
    return "a word", [Mark(2, 2, "<b>", "</b>")] * size, [Aligned("un", 0), Aligned(" mot", 2)]


def _empty_after_each_word(size: int) -> tuple[str, list[Mark], list[Aligned]]:
    return _sentence(size), [Mark(5 * i, 5 * i, "<br>") for i in range(size)], _words(size, lambda i: i)


def _around_each_word(size: int) -> tuple[str, list[Mark], list[Aligned]]:
    return _sentence(size), [Mark(5 * i, 5 * i + 4, "<b>", "</b>") for i in range(size)], _words(size, lambda i: -i)


def _torn(size: int) -> tuple[str, list[Mark], list[Aligned]]:
    """Each element has a word at the beginning and one at the end."""
    marks = [Mark(10 * i, 10 * i + 9, "<b>", "</b>") for i in range(size // 2)]
    return _sentence(size), marks, _words(size, lambda i: 2 * i if i < size // 2 else 2 * (size - i) - 1)


def _links_without_words(size: int) -> tuple[str, list[Mark], list[Aligned]]:
    marks = [Mark(5 * i, 5 * i + 4, "<a>", "</a>") for i in range(0, size, 2)]
    return _sentence(size), marks, _words(size, lambda i: 2 * random.Random(i).randrange(size) + 1)


def _nested(size: int) -> tuple[str, list[Mark], list[Aligned]]:
    marks: list[Mark] = []
    for _ in range(50):
        marks = [Mark(0, 5 * size, "<b>", "</b>", marks)]
    return _sentence(size), marks, _words(size, lambda i: i)


@pytest.mark.parametrize(
    "build",
    [_empty_at_one_place, _empty_after_each_word, _around_each_word, _torn, _links_without_words, _nested],
)
def test_twice_the_tags_take_twice_the_steps(build: Build) -> None:
    once, twice = (steps_of(partial(place_marks, *build(size))) for size in (1000, 2000))
    assert twice <= _MOST_GROWTH * once + _FEW_STEPS
