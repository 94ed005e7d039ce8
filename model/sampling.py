"""Selection of token ids from logits, and the rules against repetition that change logits before it.

Randomness is a hash of (seed, position, token), so that a sampled token never depends on which other requests share the
batch, nor on how often a generator was called before.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

from model import kernels
from model.kernels import library


class SamplingParameters(NamedTuple):
    """The sampling options of each row of a batch; every tensor is `[batch]`.

    `temperature` 0 means greedy; `top_k` 0 and `top_p` 1 mean no restriction; `noise` is the row's of `noise_states`.
    """

    temperature: Tensor
    """float32."""
    top_k: Tensor
    """int64."""
    top_p: Tensor
    """float32."""
    noise: Tensor
    """int64."""


class Sampled(NamedTuple):
    """Chosen ids `[batch]` and their log-probabilities `[batch]` under the unmodified logits."""

    tokens: Tensor
    logprobs: Tensor


class Peak(NamedTuple):
    """The most probable tokens `[batch]`, their logits and their log-probabilities."""

    tokens: Tensor
    logits: Tensor
    logprobs: Tensor

    @property
    def sampled(self) -> Sampled:
        return Sampled(self.tokens, self.logprobs)


def peak(logits: Tensor) -> Peak:
    """Return the most probable token of each row of `logits [batch, vocab]`, which is searched only once for it."""
    best = logits.max(dim=-1)
    log_sums = (logits - best.values[:, None]).exp_().sum(dim=-1).log_()
    return Peak(best.indices, best.values, 0.0 - log_sums)  # not the negative: that of 0.0 would be -0.0


def greedy(logits: Tensor) -> Sampled:
    """Return the most probable token of each row of `logits [batch, vocab]`."""
    return peak(logits).sampled


def sample(
    logits: Tensor, parameters: SamplingParameters, *, is_restricted: bool | None = None, best: Peak | None = None
) -> Sampled:
    """Draw one token a row from `logits [batch, vocab]`; rows with temperature 0 take the best.

    Temperature, then top-k, then nucleus (Holtzman et al. 2020), then the best of the scores with Gumbel
    noise, which is a draw from their softmax (Gumbel-max trick, Maddison et al. 2014). Unlike an inverse
    of the sorted cumulative distribution it turns a difference in the last bits of the logits into
    another token only where two noisy scores are as close as that.

    `is_restricted` is False if no row has a top-k or a nucleus; by default the tensors are read to find out. `best` is
    `peak(logits)`, where the caller has it.

    In C++ if the operators are there, with the same bits on every processor; in PyTorch much slower, with the same
    tokens except where two scores tie in the last bits.
    """
    if kernels.serves(logits):
        tokens, logprobs = library.sample(logits.contiguous(), *parameters)
        return Sampled(tokens, logprobs)
    is_greedy = parameters.temperature <= 0
    temperature = torch.where(is_greedy, 1.0, parameters.temperature)
    best = best or peak(logits)
    # Differences to the best: a tiny temperature then gives -inf, not a tie of infinities.
    scores = (logits - best.logits[:, None]) / temperature[:, None]
    noisy = scores + gumbel_noise(parameters.noise, logits.shape[-1])
    # The vocabulary is not sorted unless a row needs it: that takes three times as long as the rest.
    if is_restricted is None:
        is_restricted = restricts(parameters.top_k, parameters.top_p)
    if is_restricted:
        noisy = noisy.masked_fill(~_allowed(scores, parameters.top_k, parameters.top_p), -math.inf)
    tokens = torch.where(is_greedy, best.tokens, noisy.argmax(dim=-1))
    return Sampled(tokens, logits.gather(-1, tokens[:, None]).squeeze(-1) - best.logits + best.logprobs)


def restricts(top_k: Tensor, top_p: Tensor) -> bool:
    """Return True if a row has a top-k or a nucleus."""
    return bool(((top_k > 0) | (top_p < 1)).any())


_UNITS: Final = 2.0**40
"""The best token's weight in units. The sum of whole numbers does not depend on their order."""


def _allowed(scores: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
    """Return a mask of the tokens `[batch, vocab]` that top-k and nucleus leave; the best always stays."""
    ordered, order = scores.sort(dim=-1, descending=True, stable=True)
    weights = (ordered.exp().double() * _UNITS).long()
    before = weights.cumsum(dim=-1) - weights
    rank = torch.arange(scores.shape[-1], device=scores.device)
    most = torch.where(top_k > 0, top_k, scores.shape[-1])
    limit = torch.where(top_p < 1, top_p.double() * weights.sum(dim=-1), math.inf)
    kept = (rank < most[:, None]) & ((before < limit[:, None]) | (rank == 0))
    return torch.zeros_like(kept).scatter(-1, order, kept)


# SplitMix64 (Steele et al. 2014), its constants as signed 64-bit numbers: torch's integers wrap around.
_GOLDEN: Final = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST: Final = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND: Final = 0x94D049BB133111EB - (1 << 64)


def noise_states(seeds: Tensor, positions: Tensor) -> Tensor:
    """Return the states that `gumbel_noise` starts from at positions of requests with these seeds; all int64
    `[batch]`."""
    return _mix(_mix(seeds) + positions * _GOLDEN)


def gumbel_noise(states: Tensor, vocab: int) -> Tensor:
    """Standard Gumbel numbers `[batch, vocab]` in float32, each a function of its row's state and its token."""
    tokens = torch.arange(vocab, device=states.device)
    bits = _mix(states[:, None] + tokens * _GOLDEN)
    # The upper 52 bits, in the middle of their interval: never 0 or 1, as one more bit would round it.
    uniform = (_shift(bits, 12).double() + 0.5) * 2.0**-52
    return -(-uniform.log()).log().float()


def _mix(state: Tensor) -> Tensor:
    state = state + _GOLDEN
    state = (state ^ _shift(state, 30)) * _FIRST
    state = (state ^ _shift(state, 27)) * _SECOND
    return state ^ _shift(state, 31)


def _shift(state: Tensor, bits: int) -> Tensor:
    """Logical shift to the right: torch's keeps the sign."""
    return (state >> bits) & ((1 << (64 - bits)) - 1)


# Rules against repetition work on all rows of a batch at once: a small tensor takes longer to make than to work with.


def penalise_repetition(logits: Tensor, ids: Sequence[Sequence[int]], penalties: Sequence[float]) -> None:
    """Make each of a row's `ids` less probable, in `logits [rows, vocab]` itself; a penalty of 1 changes nothing.

    A positive logit is divided by the row's penalty, a negative one multiplied with it (Keskar et al. 2019, CTRL,
    section 4.1, as in Hugging Face's RepetitionPenaltyLogitsProcessor). An id that occurs twice is penalised once.
    """
    seen = [(row, token) for row, own in enumerate(ids) if penalties[row] != 1 for token in set(own)]
    if seen:
        rows, tokens = torch.tensor(seen).unbind(1)
        old, penalty = logits[rows, tokens], torch.tensor(penalties)[rows]
        logits[rows, tokens] = old.where(old < 0, old / penalty).where(old >= 0, old * penalty)


def forbid_repeated_ngrams(logits: Tensor, ids: Sequence[Sequence[int]], sizes: Sequence[int]) -> None:
    """Give -inf, in `logits [rows, vocab]` itself, to what would complete an n-gram that the row's `ids` already hold.

    `sizes` are the rows' sizes of n-grams; 0 forbids nothing.
    """
    repeating = [
        (row, token) for row, own in enumerate(ids) if sizes[row] > 0 for token in repeating_tokens(own, sizes[row])
    ]
    if repeating:
        rows, tokens = torch.tensor(repeating).unbind(1)
        logits[rows, tokens] = -math.inf


def repeating_tokens(ids: Sequence[int], size: int) -> list[int]:
    """Return the ids that would repeat an n-gram of `size` (Paulus et al. 2017, section 2.5, for any size)."""
    assert size >= 1
    before = size - 1
    ending = ids[len(ids) - before :]
    return sorted({ids[end] for end in range(before, len(ids)) if ids[end - before : end] == ending})
