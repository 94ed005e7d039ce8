"""Cross-entropy in chunks, without ever holding all logits."""

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.transformer import Rows

_LEAST: Final = 1e-30  # a probability whose logarithm is finite


def packed_cross_entropy(
    states: Tensor, projection: nn.Linear, target: Rows, pad_id: int, smoothing: float = 0.0
) -> Tensor:
    """Nats of packed target rows under the projection of `states [rows, positions, d_model]`, summed.

    Nothing counts between the sentences, nor where a target id is `pad_id`.
    """
    weight = projection.weight
    if projection.bias is not None:
        # A bias is the weight of one more state, which is always 1.
        states = F.pad(states, (0, 1), value=1.0)
        weight = torch.cat([weight, projection.bias[:, None].to(weight.dtype)], dim=1)
    ids = target.ids.masked_fill(target.segments == 0, pad_id)
    return smoothed_cross_entropy(states.flatten(0, 1), weight, ids.flatten(), pad_id, smoothing)


def smoothed_cross_entropy(
    states: Tensor, weight: Tensor, target_ids: Tensor, pad_id: int, smoothing: float = 0.0, chunk: int = 1024
) -> Tensor:
    """Nats of `target_ids [positions]` under the logits `states @ weight.T`, summed over all but `pad_id`.

    `states` are `[positions, d_model]`, `weight` is `[vocab, d_model]`. The value is without label smoothing, so that
    runs compare; the gradient is that of the smoothed loss.
    """
    nats: Tensor = _ChunkedCrossEntropy.apply(states, weight, target_ids, pad_id, smoothing, chunk)  # type: ignore
    return nats


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Logits, softmax and gradients of a chunk of positions at a time, all in the forward pass."""

    @staticmethod
    def forward(  # noqa: PLR0913  autograd takes no keywords
        ctx: Any, states: Tensor, weight: Tensor, target_ids: Tensor, pad_id: int, smoothing: float, chunk: int
    ) -> Tensor:
        matrix = weight.to(states.dtype)
        kept = (target_ids != pad_id).to(states.dtype)[:, None]
        states_gradient = torch.empty_like(states)
        weight_gradient = torch.zeros_like(weight)
        nats = torch.zeros((), device=states.device)
        for start in range(0, len(states), chunk):
            chosen = slice(start, start + chunk)
            part, real, gradient, ids = states[chosen], kept[chosen], states_gradient[chosen], target_ids[chosen, None]
            # Probabilities become the gradient of the logits in place: less 1 - smoothing at the target id.
            probabilities = torch.softmax(part @ matrix.T, dim=-1)
            right = probabilities.gather(1, ids)
            nats -= (right.float().clamp_min(_LEAST).log() * real).sum()
            probabilities.scatter_(1, ids, right - (1 - smoothing)).mul_(real)
            torch.mm(probabilities, matrix, out=gradient)
            weight_gradient += probabilities.T @ part
        # The share that smoothing gives to every id is the same for each position: no need to touch the logits for it.
        even = smoothing / len(weight)
        states_gradient -= kept * (matrix.sum(dim=0) * even)
        weight_gradient -= (states * kept).sum(dim=0) * even
        ctx.save_for_backward(states_gradient, weight_gradient)
        return nats

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        states_gradient, weight_gradient = ctx.saved_tensors
        [scale] = gradients
        return states_gradient * scale.to(states_gradient.dtype), weight_gradient * scale, None, None, None, None
