"""Tags of a sentence to marks: which open and close the same element, and which of them are in the sentence."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from service.text.html.source_map import Placed
from service.text.html.tokenizer import Kind
from service.text.segment import Mark

VOIDS: Final = frozenset("area base br col embed hr img input link meta param source track wbr".split())
_DEEPEST: Final = 50  # elements in one another


def _partners(tags: Sequence[Placed]) -> dict[int, int]:
    """Which tags open and close the same element, both ways, by their numbers."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    names: Counter[str] = Counter()
    for number, (_, token) in enumerate(tags):
        if token.kind is Kind.OPEN and token.name not in VOIDS and not token.raw.endswith("/>"):
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


def edges(tags: Sequence[Placed], start: int, end: int) -> tuple[int, int]:
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


def marks_of(tags: Sequence[Placed], offset: int) -> list[Mark]:
    """What has lost its partner, or is too deep in others, is a mark of its own."""
    partners = _partners(tags)
    levels: list[list[Mark]] = [[]]
    opened: list[Placed] = []
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
