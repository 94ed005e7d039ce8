"""Modes are a table: what is done to the weights at load, and which runner executes the steps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch

from model.transformer import Transformer
from service.engine.runner import EagerRunner, Runner


@dataclass(frozen=True)
class Mode:
    """`dtype` of the weights as loaded, and the runner built around the model."""

    dtype: torch.dtype
    build_runner: Callable[[Transformer, int, int], Runner]


def _eager(model: Transformer, slots: int, max_length: int) -> Runner:
    return EagerRunner(model, slots=slots, max_length=max_length)


MODES: Final[dict[str, Mode]] = {
    "fp32": Mode(dtype=torch.float32, build_runner=_eager),
}
