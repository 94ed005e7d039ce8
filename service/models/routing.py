"""By which model a text goes from one language into another. Knows no engines."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from model.manifest import Direction
from service.models.served import ServedModel


class Leg(NamedTuple):
    """One translation by one model."""

    model: ServedModel
    direction: Direction


class Routes:
    """What some models can translate; where two have the same direction, the first by name has it."""

    def __init__(self, models: Iterable[ServedModel] = ()) -> None:
        self._legs: dict[tuple[str, str], Leg] = {}
        for model in sorted(models, key=lambda each: each.name):
            for direction in model.directions:
                self._legs.setdefault(direction.codes(), Leg(model, direction))
        self.directions: Sequence[Direction] = [leg.direction for leg in self._legs.values()]
        """The first model's first ones first."""

    def find(self, source: str, target: str) -> Leg | None:
        """None where there is no way."""
        return self._legs.get((source, target))
