"""The model that computes in training, in the precision of the run. Knows nothing of optimisers."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from model.training.config import OptimiserConfig
from model.training.loss import packed_cross_entropy
from model.training.rows import Batch
from model.transformer import Transformer


class WorkingCopy:
    """The model that computes. In bfloat16 it is a copy, whose weights and gradients go to and from the float32 ones.

    Embeddings, whose gradients are sums of many, stay float32 and are shared.
    """

    def __init__(self, model: Transformer, options: OptimiserConfig, device: torch.device) -> None:
        self._model = model
        self._copy = model
        self._pairs: list[tuple[nn.Parameter, nn.Parameter]] = []
        if uses_bfloat16(options, device.type):
            shared = {id(each.weight): each.weight for each in model.modules() if isinstance(each, nn.Embedding)}
            shared[id(model.projection.weight)] = model.projection.weight
            self._copy = copy.deepcopy(model, memo=dict(shared))
            for parameter, original in zip(self._copy.parameters(), model.parameters(), strict=True):
                if parameter is not original:
                    parameter.data = parameter.data.to(torch.bfloat16)
                    self._pairs.append((parameter, original))
        self._teach: Callable[..., Tensor] = self._copy.teach
        if options.compile:
            self._teach = torch.compile(self._copy.teach)

    def train(self) -> None:
        self._copy.train()

    def nats(self, batch: Batch, label_smoothing: float) -> Tensor:
        """Return the loss of a batch, summed over its target tokens (`packed_cross_entropy`)."""
        states = self._teach(batch.source, batch.target)
        pad = self._model.config.pad_id
        return packed_cross_entropy(states, self._copy.projection, batch.target, pad, label_smoothing)

    def hand_over_gradients(self) -> None:
        for parameter, original in self._pairs:
            original.grad = None if parameter.grad is None else parameter.grad.float()
            parameter.grad = None

    @torch.no_grad()
    def take_weights(self) -> None:
        if self._pairs:
            copies, originals = zip(*self._pairs, strict=True)
            torch._foreach_copy_(copies, originals)


def uses_bfloat16(options: OptimiserConfig, device: str) -> bool:
    """Return True if matrix products run in bfloat16; "auto" decides by the processor's instructions."""
    if options.precision != "auto":
        return options.precision == "bfloat16"
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
