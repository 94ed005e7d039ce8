"""Modes are a table: in which type the weights are loaded, and which runner executes the steps on which device."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch

from model import kernels
from model.cpp_transformer import CppTransformer
from model.quantized_linear import Int8Linear, PrepackedLinear, WideLinear, replace_linears
from model.shortlist import Shortlist
from model.transformer import Transformer
from service.engine.gpu.cuda_graph_runner import CudaGraphRunner
from service.engine.runner import CppRunner, EagerRunner, Runner

logger = logging.getLogger(__name__)

BuildRunner = Callable[[Transformer, int, int, Shortlist | None], Runner]
"""A function of (model, slots, longest sequence, shortlist to use)."""


@dataclass(frozen=True)
class Mode:
    """`dtype` of the weights as loaded, and what builds the runner, by the type of the model's device."""

    dtype: torch.dtype
    runners: dict[str, BuildRunner]

    def build_runner(
        self, model: Transformer, slots: int, max_length: int, shortlist: Shortlist | None = None
    ) -> Runner:
        """Build the runner; the model is the runner's from then on: to keep, to change or to drop.

        Raises RuntimeError for a shortlist that it cannot use.
        """
        return self.runners[model.embedding.weight.device.type](model, slots, max_length, shortlist)


def mode_on(name: str, device: torch.device) -> Mode:
    """Return the mode of that name; raises RuntimeError if the device cannot run it."""
    mode = MODES[name]
    if device.type not in mode.runners:
        able = " and ".join(other for other, each in MODES.items() if device.type in each.runners)
        raise RuntimeError(f"mode: {name} does not run on {device.type}; {able} do")
    return mode


def device_of(name: str, replica: int) -> torch.device:
    """`cuda` without a number: each replica takes the next GPU in turn.

    Raises RuntimeError for a GPU that is not there.
    """
    device = torch.device(name)
    if device.type != "cuda":
        return device
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count <= (device.index or 0):
        raise RuntimeError(f"device: there is no {name}; PyTorch {torch.__version__} finds {count or 'no'} GPUs here")
    return torch.device("cuda", replica % count if device.index is None else device.index)


def _fp32(model: Transformer, slots: int, max_length: int, shortlist: Shortlist | None) -> Runner:
    kernels.load()  # may compile: before the engine reports that it is ready
    if PrepackedLinear.is_available():
        replace_linears(model, PrepackedLinear)
    return EagerRunner(model, slots=slots, max_length=max_length, shortlist=shortlist)


def _with_fixed_shapes(model: Transformer, slots: int, max_length: int, shortlist: Shortlist | None) -> Runner:
    if shortlist is not None:
        raise RuntimeError("shortlist: only the modes int8 and fp32 on a CPU use one")
    return CudaGraphRunner(model, slots=slots, max_length=max_length)


def _int8(model: Transformer, slots: int, max_length: int, shortlist: Shortlist | None) -> Runner:
    if not CppTransformer.is_available():
        logger.warning("int8 without C++ operators: slower, and equal in any batch apart from rounding")
    elif CppTransformer.supports(model.config):
        return CppRunner(model, slots=slots, max_length=max_length, shortlist=shortlist)
    else:
        logger.warning("int8 in PyTorch, which is slower: the C++ engine does not know this kind of transformer")
    replace_linears(model, Int8Linear)
    return EagerRunner(model, slots=slots, max_length=max_length, shortlist=shortlist)


def _captured(model: Transformer, slots: int, max_length: int, shortlist: Shortlist | None) -> Runner:
    # cuDNN would make a plan for each shape, which takes longer than thousands of steps, and keep all of them.
    torch.backends.cuda.enable_cudnn_sdp(False)
    return _with_fixed_shapes(model, slots, max_length, shortlist)


def _bf16(model: Transformer, slots: int, max_length: int, shortlist: Shortlist | None) -> Runner:
    model.register_module("projection", WideLinear(model.projection))
    return _captured(model, slots, max_length, shortlist)


def _bf16_without_graphs(model: Transformer, slots: int, max_length: int, shortlist: Shortlist | None) -> Runner:
    logger.warning("bf16 on a CPU is for tests: int8 is faster")
    return _bf16(model, slots, max_length, shortlist)


MODES: Final[dict[str, Mode]] = {
    "int8": Mode(torch.float32, {"cpu": _int8}),
    "fp32": Mode(torch.float32, {"cpu": _fp32, "cuda": _captured}),
    "bf16": Mode(torch.bfloat16, {"cpu": _bf16_without_graphs, "cuda": _bf16}),
}
