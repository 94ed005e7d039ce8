"""Inputs and requested outputs of one decoder step, and the rows whose tokens the step itself chooses."""

from typing import Final, NamedTuple

import torch
from torch import Tensor

from model.sampling import Sampled, SamplingParameters, noise_states, sample


class Queries(NamedTuple):
    """The rows of a step, each one query of a slot at a position: int64 `[rows]` each.

    A row writes its K/V at its position of its slot and then attends to positions 0 to its own, so rows of the same
    slot at consecutive positions advance it by several at once.
    """

    tokens: Tensor
    """The id that each row reads: the one before the id that it predicts."""
    positions: Tensor
    slots: Tensor
    """The slot whose target K/V the row extends."""
    source_slots: Tensor
    """The slot that has the K/V of the row's source; a beam's rows share it."""
    source_lengths: Tensor


class Outputs(NamedTuple):
    """Rows (ascending) that return more than their best token."""

    logits: list[int]
    alignment: list[int]
    """Rows whose cross-attention weights are returned."""
    self_attention: list[int]
    """Rows whose self-attention weights are returned."""


NO_OUTPUTS: Final = Outputs([], [], [])


class PlainRows(NamedTuple):
    """The last rows of a step, whose tokens the step chooses itself, so that another can follow at once.

    Greedy or sampled, one a sequence; all tensors are `[plain rows]`.
    """

    rooms: Tensor
    """The number of tokens that each may still write, at least 1: int64."""
    temperatures: Tensor
    """float32; 0 is greedy. Empty if all rows are greedy, as are the next three."""
    top_ks: Tensor
    """int64; 0 restricts nothing."""
    top_ps: Tensor
    """float32; 1 restricts nothing."""
    seeds: Tensor
    """int64."""

    @property
    def is_sampled(self) -> bool:
        """True if not all rows are greedy."""
        return bool(len(self.temperatures))


_NO_NUMBERS: Final = torch.empty(0, dtype=torch.int64)
NO_PLAIN_ROWS: Final = PlainRows(_NO_NUMBERS, torch.empty(0), _NO_NUMBERS, torch.empty(0), _NO_NUMBERS)


def with_samples(best: Sampled, logits: Tensor, positions: Tensor, plain: PlainRows) -> Sampled:
    """Return the tokens of a step `[rows]`: draws for the plain rows that sample, `best` for all others.

    `logits [rows, vocab]`; `positions [rows]` are those of the step's queries.
    """
    if not plain.is_sampled:
        return best
    chosen = plain.temperatures.nonzero()[:, 0]
    rows = chosen + (len(logits) - len(plain.rooms))
    noise = noise_states(plain.seeds[chosen], positions[rows])
    options = SamplingParameters(plain.temperatures[chosen], plain.top_ks[chosen], plain.top_ps[chosen], noise)
    drawn = sample(logits[rows], options)
    return Sampled(best.tokens.index_copy(0, rows, drawn.tokens), best.logprobs.index_copy(0, rows, drawn.logprobs))
