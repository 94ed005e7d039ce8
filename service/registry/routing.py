"""By which models a text goes from one language into another. Knows no engines."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from model.checkpoint_config import Direction
from service.registry.served_model import ServedModel

_PREFERRED: Final = "en"
"""What most models translate from or into, and have seen most of."""


class Leg(NamedTuple):
    """One translation by one model."""

    model: ServedModel
    direction: Direction


class Route(NamedTuple):
    """The way from one language into another: straight, or by a second translation from a language between them."""

    first: Leg
    second: Leg | None = None

    @property
    def last(self) -> Leg:
        return self.second or self.first

    @property
    def pivot(self) -> str | None:
        """The language between."""
        return self.second and self.second.direction.source

    @property
    def models(self) -> set[ServedModel]:
        return {self.first.model, self.last.model}


class Routes:
    """What some models can translate; where two have the same direction, the first by name has it."""

    def __init__(self, models: Iterable[ServedModel] = ()) -> None:
        self._legs: dict[tuple[str, str], Leg] = {}
        for model in sorted(models, key=lambda each: each.name):
            for direction in model.directions:
                self._legs.setdefault(direction.codes(), Leg(model, direction))
        self._straight: dict[str, set[str]] = {}
        for source, target in self._legs:
            self._straight.setdefault(source, set()).add(target)

    @cached_property
    def targets(self) -> Mapping[str, frozenset[str]]:
        """Into what each source language can be translated."""
        return {source: self._reached(source) for source in self._straight}

    @cached_property
    def languages(self) -> frozenset[str]:
        """All of them, of sources and of targets."""
        return frozenset(self.targets).union(*self.targets.values())

    @cached_property
    def directions(self) -> Sequence[Direction]:
        """All of them: those of the first model first, those with a language between at the end."""
        straight = [leg.direction for leg in self._legs.values()]
        pairs = sorted((source, target) for source, targets in self.targets.items() for target in targets)
        return straight + [Direction(source=a, target=b) for a, b in pairs if (a, b) not in self._legs]

    def find(self, source: str, target: str) -> Route | None:
        """None where there is no way."""
        if leg := self._legs.get((source, target)):
            return Route(leg)
        if source == target:
            return None
        between = (each for each in self._straight.get(source, ()) if (each, target) in self._legs)
        pivot = min(between, key=lambda code: (code != _PREFERRED, code), default=None)
        return None if pivot is None else Route(self._legs[source, pivot], self._legs[pivot, target])

    def _reached(self, source: str) -> frozenset[str]:
        straight = self._straight[source]
        return frozenset(straight.union(*(self._straight.get(each, ()) for each in straight)) - {source})
