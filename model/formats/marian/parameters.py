"""The parameters of a Marian model, whichever file they are from, each to be taken once as a part of our checkpoint."""

from pathlib import Path
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from model.checkpoint import scale_of
from model.formats.checked_source import Weights

CONFIGURATION: Final = "special:model.yml"
"""The item that has the model's options instead of numbers."""
_STATIC_SCALE: Final = "_QuantMultA"
"""The end of a name: a scale of activations. Rows have scales of their own here."""


class Content(NamedTuple):
    """A model file."""

    configuration: str
    parameters: dict[str, Tensor]
    """float32 `[in, out]`, or int8 `[out, in]`; embeddings are `[words, d_model]` in both."""
    multipliers: dict[str, float]
    """The factors by which the numbers of parameters were multiplied before they became int8."""


class Parameters(Weights):
    """Parameters by Marian's names; `check` refuses missing, leftover and wrong ones, all at once."""

    def __init__(self, content: Content, path: Path) -> None:
        kept = {name: each for name, each in content.parameters.items() if not name.endswith(_STATIC_SCALE)}
        super().__init__(kept, path)
        self._multipliers = content.multipliers

    def has(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str) -> Tensor:
        """Return a parameter, which has two dimensions; an empty one where it is missing or wrong, until `check`."""
        found = super().take(name)
        if found.dim() == 2:
            return found
        self.refuse(f"{name} has the shape {list(found.shape)}")
        return torch.zeros(0, 0)

    def vector(self, name: str) -> Tensor:
        """Return a bias or a part of a norm."""
        if name in self._multipliers:
            self.refuse(f"{name} is int8")
        return self.take(name).flatten()

    def linear(self, ours: str, theirs: str, extra: int = 0) -> dict[str, Tensor]:
        """Return a matrix as our `[out, in]`, with `extra` outputs that are 0."""
        values = self.take(theirs)
        return self._scaled(ours, theirs, values if theirs in self._multipliers else values.T, extra)

    def rows(self, ours: str, theirs: str, extra: int = 0) -> dict[str, Tensor]:
        """Return a table of words, with `extra` rows of zeros."""
        return self._scaled(ours, theirs, self.take(theirs), extra)

    def _scaled(self, ours: str, theirs: str, values: Tensor, extra: int) -> dict[str, Tensor]:
        if values.numel():  # PyTorch 2.8 refuses to pad what is empty, as a missing matrix is
            values = functional.pad(values, (0, 0, 0, extra)).contiguous()
        if theirs not in self._multipliers:
            return {ours: values}
        return {ours: values, scale_of(ours): torch.full((len(values),), self._multipliers[theirs])}
