"""Modes are a table: what is done to the weights at load, and which runner executes the steps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch

from model import kernels
from model.linear import PrepackedLinear, replace_linears
from model.transformer import Transformer
from service.engine.runner import EagerRunner, Runner


@dataclass(frozen=True)
class Mode:
    """`dtype` of the weights as loaded, what is done to them, and the runner built around the model."""

    dtype: torch.dtype
    transform: Callable[[Transformer], None]
    build_runner: Callable[[Transformer, int, int], Runner]


def _prepack(model: Transformer) -> None:
    if PrepackedLinear.is_available():
        replace_linears(model, PrepackedLinear)


def _eager(model: Transformer, slots: int, max_length: int) -> Runner:
    kernels.load()  # may compile: before the engine says that it is ready
    return EagerRunner(model, slots=slots, max_length=max_length)


MODES: Final[dict[str, Mode]] = {
    "fp32": Mode(dtype=torch.float32, transform=_prepack, build_runner=_eager),
}
