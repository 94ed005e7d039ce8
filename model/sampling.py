"""From logits to token ids: pure functions of their arguments.

Randomness is a hash of (seed, position), one uniform number per row, so that a sampled token never
depends on which other requests share the batch, nor on how often a generator was called before.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class SamplingParameters(NamedTuple):
    """How each row of a batch is sampled; every tensor is `[batch]`.

    `temperature` 0 means greedy; `top_k` 0 and `top_p` 1 mean no restriction; `uniform` is the row's
    random number in [0, 1).
    """

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    uniform: Tensor


class Sampled(NamedTuple):
    """Chosen ids `[batch]` and their log-probabilities `[batch]` under the unmodified distribution."""

    tokens: Tensor
    logprobs: Tensor


def greedy(logits: Tensor) -> Sampled:
    """The most probable token of each row of `logits [batch, vocab]`."""
    best = logits.max(dim=-1)
    return Sampled(best.indices, best.values - logits.logsumexp(dim=-1))


def sample(logits: Tensor, parameters: SamplingParameters) -> Sampled:
    """Draw one token a row from `logits [batch, vocab]`; rows with temperature 0 take the best.

    Temperature, then top-k, then nucleus (Holtzman et al. 2020), then the inverse of the cumulative
    distribution at `uniform`.
    """
    is_greedy = parameters.temperature <= 0
    temperature = torch.where(is_greedy, 1.0, parameters.temperature)
    # Differences to the best: a tiny temperature then gives -inf, not a tie of infinities.
    relative = logits - logits.amax(dim=-1, keepdim=True)
    ordered, order = (relative / temperature[:, None]).sort(dim=-1, descending=True, stable=True)
    probabilities = ordered.softmax(dim=-1)
    rank = torch.arange(logits.shape[-1], device=logits.device)
    before = probabilities.cumsum(dim=-1) - probabilities
    top_k = torch.where(parameters.top_k > 0, parameters.top_k, logits.shape[-1])
    # The best token always stays, whatever top_p.
    allowed = (rank < top_k[:, None]) & ((before < parameters.top_p[:, None]) | (rank == 0))
    cumulative = (probabilities * allowed).cumsum(dim=-1)
    drawn = torch.searchsorted(cumulative, parameters.uniform[:, None] * cumulative[:, -1:], right=True)
    # Rounding can push a number next to 1 past the last allowed token.
    drawn = drawn.clamp(max=allowed.sum(dim=-1, keepdim=True) - 1)
    chosen = torch.where(is_greedy[:, None], 0, drawn)
    tokens = order.gather(-1, chosen).squeeze(-1)
    logprobs = logits.log_softmax(dim=-1).gather(-1, tokens[:, None]).squeeze(-1)
    return Sampled(tokens, logprobs)


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that depends on nothing but its arguments (SplitMix64, Steele et al. 2014)."""
    mask = (1 << 64) - 1
    state = (_mix(seed & mask) + position * 0x9E3779B97F4A7C15) & mask
    return (_mix(state) >> 11) / (1 << 53)


def _mix(value: int) -> int:
    mask = (1 << 64) - 1
    value = (value + 0x9E3779B97F4A7C15) & mask
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)
