"""From a plan's requests to the tensors of one step."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from model.sampling import SamplingParameters, noise_state
from service.engine.scheduler import Running


class SourceBatch(NamedTuple):
    """Sources to encode, one behind the other: `ids` and `positions [1, tokens]`, `offsets [sources + 1]`."""

    ids: Tensor
    positions: Tensor
    offsets: Tensor
    lengths: list[int]
    slots: list[int]


class StepBatch(NamedTuple):
    """Queries of one decoder step; every row is one, of a slot at a position. Tensors are int64 `[rows]`.

    A row writes its K/V at its position of its slot and then looks at positions 0 to its own, so rows of the same
    slot at consecutive positions advance it by several at once.
    """

    tokens: Tensor
    """What each row reads: the id before the one that it predicts."""
    positions: Tensor
    slots: Tensor
    """Whose target K/V the row extends."""
    source_slots: Tensor
    """Where the K/V of its source are; a beam's rows share them."""
    source_lengths: Tensor
    copies: list[tuple[int, int, int]]
    """(from slot, to slot, positions): target K/V to copy before the step. No slot is both read and written."""
    logit_rows: list[int]
    """Rows whose logits are wanted, in ascending order; of the others the best token is enough."""
    alignment_rows: list[int]
    """Rows whose cross-attention weights are wanted, in ascending order."""


class StepScores(NamedTuple):
    """What a step gives; on the CPU."""

    tokens: Tensor
    """The most probable id of each row, the lowest of equal ones: int64 `[rows]`."""
    logprobs: Tensor
    """Its log-probability, float32 `[rows]`."""
    logits: Tensor
    """Of `logit_rows`: float32 `[len(logit_rows), vocab]`, the caller's to change."""
    alignment: Tensor | None = None
    """Of `alignment_rows`: weights over the source, float32 `[len(alignment_rows), longest source]`, 0 behind its end;
    None where none were asked for."""


def source_batch(admitted: Sequence[Running]) -> SourceBatch:
    sources = [running.request.source_ids for running in admitted]
    lengths = [len(source) for source in sources]
    return SourceBatch(
        ids=torch.tensor([[token for source in sources for token in source]]),
        positions=torch.tensor([[position for length in lengths for position in range(length)]]),
        offsets=torch.tensor([0, *accumulate(lengths)]),
        lengths=lengths,
        slots=[running.slot for running in admitted],
    )


def step_batch(running: Sequence[Running], bos_id: int) -> StepBatch:
    slots = torch.tensor([each.slot for each in running])
    return StepBatch(
        tokens=torch.tensor([each.tokens[-1] if each.tokens else bos_id for each in running]),
        positions=torch.tensor([each.position for each in running]),
        slots=slots,
        source_slots=slots,
        source_lengths=torch.tensor([len(each.request.source_ids) for each in running]),
        copies=[],
        logit_rows=[row for row, each in enumerate(running) if each.request.sampling.temperature > 0],
        alignment_rows=[],
    )


def sampling_parameters(running: Sequence[Running]) -> SamplingParameters:
    options = [each.request.sampling for each in running]
    return SamplingParameters(
        temperature=torch.tensor([option.temperature for option in options]),
        top_k=torch.tensor([option.top_k for option in options]),
        top_p=torch.tensor([option.top_p for option in options]),
        noise=torch.tensor([noise_state(each.request.sampling.seed, each.position) for each in running]),
        restricted=any(option.top_k > 0 or option.top_p < 1 for option in options),
    )
