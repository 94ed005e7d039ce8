"""The parameters of a Marian model, whichever file they are from, each to be taken once as a part of our checkpoint."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from model.checkpoint import scale_of
from model.checkpoint_config import CheckpointError

CONFIGURATION: Final = "special:model.yml"
"""The item that has the model's options instead of numbers."""
_STATIC_SCALE: Final = "_QuantMultA"
"""The end of a name: a scale of activations. Rows have scales of their own here."""


class Parameter(NamedTuple):
    """A matrix or a vector, as it is stored."""

    values: Tensor
    """float32 `[in, out]`, or int8 `[out, in]`; embeddings are `[words, d_model]` in both."""
    multiplier: float | None = None
    """The factor by which the numbers were multiplied before they became int8."""


class Content(NamedTuple):
    """A model file."""

    configuration: str
    parameters: dict[str, Parameter]


class Parameters:
    """Parameters by Marian's names; `check` refuses missing, leftover and wrong ones, all at once."""

    def __init__(self, parameters: Mapping[str, Parameter], path: Path) -> None:
        self._left = {name: each for name, each in parameters.items() if not name.endswith(_STATIC_SCALE)}
        self._path = path
        self._problems: list[str] = []

    def has(self, name: str) -> bool:
        return name in self._left

    def vector(self, name: str) -> Tensor:
        """Return a bias or a part of a norm."""
        values, multiplier = self._take(name)
        if multiplier is not None:
            self._problems.append(f"{name} is int8")
        return values.flatten()

    def linear(self, ours: str, theirs: str, extra: int = 0) -> dict[str, Tensor]:
        """Return a matrix as our `[out, in]`, with `extra` outputs that are 0."""
        values, multiplier = self._take(theirs)
        return _scaled(ours, values.T if multiplier is None else values, multiplier, extra)

    def rows(self, ours: str, theirs: str, extra: int = 0) -> dict[str, Tensor]:
        """Return a table of words, with `extra` rows of zeros."""
        return _scaled(ours, *self._take(theirs), extra)

    def check(self) -> None:
        """Raises `CheckpointError` naming every problem."""
        problems = self._problems + [f"unexpected {name}" for name in self._left]
        if problems:
            raise CheckpointError(f"{self._path}: {'; '.join(sorted(problems))}")

    def _take(self, name: str) -> Parameter:
        if name not in self._left:
            self._problems.append(f"missing {name}")
            return Parameter(torch.zeros(0, 0))
        found = self._left.pop(name)
        if found.values.dim() != 2:
            self._problems.append(f"{name} has the shape {list(found.values.shape)}")
            return Parameter(torch.zeros(0, 0))
        return found


def _scaled(name: str, values: Tensor, multiplier: float | None, extra: int) -> dict[str, Tensor]:
    values = functional.pad(values, (0, 0, 0, extra)).contiguous()
    if multiplier is None:
        return {name: values}
    return {name: values, scale_of(name): torch.full((len(values),), multiplier)}
