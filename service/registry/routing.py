"""Routes from one language into another, through one model or two. Knows no engines."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from model.checkpoint_config import Direction
from service.registry.model_version import RemoteModel
from service.registry.served_model import ServedModel

_PREFERRED: Final = "en"
"""The preferred pivot: most models translate from or into it, and have the most training data for it."""


class Leg(NamedTuple):
    """One translation by one model."""

    model: ServedModel
    direction: Direction


class Route(NamedTuple):
    """A way from one language into another: direct, or through a pivot language by two translations."""

    first: Leg
    second: Leg | None = None

    @property
    def last(self) -> Leg:
        return self.second or self.first

    @property
    def pivot(self) -> str | None:
        """The pivot language, if there is one."""
        return self.second and self.second.direction.source

    @property
    def models(self) -> set[ServedModel]:
        return {self.first.model, self.last.model}


class Plan(NamedTuple):
    """The needs of a route before it can be used: models to fetch, if any, and its pivot language."""

    missing: Sequence[RemoteModel] = ()
    pivot: str | None = None


class Routes:
    """The routes of some models; of two models with the same direction, the first by name gets it.

    A direction that no loaded model has gets a remote one, if there is one.
    """

    def __init__(self, models: Iterable[ServedModel] = (), remote: Iterable[RemoteModel] = ()) -> None:
        self._legs: dict[tuple[str, str], Leg] = {}
        self.unused: list[Leg] = []
        """Directions of models that another model has, too, and gets."""
        for model in sorted(models, key=lambda each: each.name):
            for direction in model.directions:
                leg = Leg(model, direction)
                if self._legs.setdefault(direction.codes(), leg) is not leg:
                    self.unused.append(leg)
        self._remote: dict[tuple[str, str], RemoteModel] = {}
        for each in sorted(remote, key=lambda each: each.name):
            for direction in each.directions:
                if direction.codes() not in self._legs:
                    self._remote.setdefault(direction.codes(), each)
        self._direct: dict[str, set[str]] = {}
        for source, target in (*self._legs, *self._remote):
            self._direct.setdefault(source, set()).add(target)

    @cached_property
    def targets(self) -> Mapping[str, frozenset[str]]:
        """The target languages of each source language."""
        return {source: self._reached(source) for source in self._direct}

    @cached_property
    def languages(self) -> frozenset[str]:
        """All source and target languages."""
        return frozenset(self.targets).union(*self.targets.values())

    @cached_property
    def directions(self) -> Sequence[Direction]:
        """All directions: those of the first model first, those through a pivot last."""
        direct = [leg.direction for leg in self._legs.values()]
        direct += [Direction(source=source, target=target) for source, target in self._remote]
        pairs = sorted((source, target) for source, targets in self.targets.items() for target in targets)
        known = self._legs.keys() | self._remote.keys()
        return direct + [Direction(source=a, target=b) for a, b in pairs if (a, b) not in known]

    @cached_property
    def downloadable(self) -> Mapping[str, frozenset[str]]:
        """The targets of each source language that need a download first."""
        return {
            source: frozenset(
                each for each in targets if any(not one.is_here for one in self.plan(source, each).missing)
            )
            for source, targets in self.targets.items()
        }

    def plan(self, source: str, target: str) -> Plan:
        """Return what a route needs; an empty plan where there is none, and for a language into itself."""
        if (source, target) in self._legs or target not in self.targets.get(source, ()):
            return Plan()
        if remote := self._remote.get((source, target)):
            return Plan([remote])
        if route := self.find(source, target):
            return Plan(pivot=route.pivot)
        pivots = (each for each in self._direct.get(source, ()) if target in self._direct.get(each, ()))
        pivot = min(pivots, key=lambda code: (code != _PREFERRED, code))
        legs = (self._remote.get((source, pivot)), self._remote.get((pivot, target)))
        return Plan(list(dict.fromkeys(filter(None, legs))), pivot)

    def find(self, source: str, target: str) -> Route | None:
        """Return the route of loaded models, or None."""
        if leg := self._legs.get((source, target)):
            return Route(leg)
        if source == target:
            return None
        pivots = (
            each
            for each in self._direct.get(source, ())
            if (source, each) in self._legs and (each, target) in self._legs
        )
        pivot = min(pivots, key=lambda code: (code != _PREFERRED, code), default=None)
        return None if pivot is None else Route(self._legs[source, pivot], self._legs[pivot, target])

    def _reached(self, source: str) -> frozenset[str]:
        direct = self._direct[source]
        return frozenset(direct.union(*(self._direct.get(each, ()) for each in direct)) - {source})
