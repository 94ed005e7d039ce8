"""Modes are a table: in which type the weights are loaded, and which runner executes the steps."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch

from model import kernels
from model.fused import FusedTransformer
from model.linear import Int8Linear, PrepackedLinear, replace_linears
from model.transformer import Transformer
from service.engine.fused import FusedRunner
from service.engine.runner import EagerRunner, Runner

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Mode:
    """`dtype` of the weights as loaded, and what builds the runner of (model, slots, longest sequence).

    The model is the runner's from then on: to keep, to change or to drop.
    """

    dtype: torch.dtype
    build_runner: Callable[[Transformer, int, int], Runner]


def _fp32(model: Transformer, slots: int, max_length: int) -> Runner:
    kernels.load()  # may compile: before the engine says that it is ready
    if PrepackedLinear.is_available():
        replace_linears(model, PrepackedLinear)
    return EagerRunner(model, slots=slots, max_length=max_length)


def _int8(model: Transformer, slots: int, max_length: int) -> Runner:
    if not FusedTransformer.is_available():
        logger.warning("int8 without C++ operators: slower, and equal in any batch only but for rounding")
    elif FusedTransformer.supports(model.config):
        return FusedRunner(model, slots=slots, max_length=max_length)
    else:
        logger.warning("int8 in PyTorch, which is slower: the C++ engine does not know this kind of transformer")
    replace_linears(model, Int8Linear)
    return EagerRunner(model, slots=slots, max_length=max_length)


MODES: Final[dict[str, Mode]] = {
    "int8": Mode(dtype=torch.float32, build_runner=_int8),
    "fp32": Mode(dtype=torch.float32, build_runner=_fp32),
}
