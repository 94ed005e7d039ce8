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
    """Rows to advance: last `tokens`, their `positions`, `slots` and `source_lengths`, each `[rows, 1]`."""

    tokens: Tensor
    positions: Tensor
    slots: Tensor
    source_lengths: Tensor


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
    return StepBatch(
        tokens=torch.tensor([[each.tokens[-1] if each.tokens else bos_id] for each in running]),
        positions=torch.tensor([[each.position] for each in running]),
        slots=torch.tensor([[each.slot] for each in running]),
        source_lengths=torch.tensor([[len(each.request.source_ids)] for each in running]),
    )


def sampling_parameters(running: Sequence[Running]) -> SamplingParameters | None:
    """None when every row is greedy, which needs no sorting."""
    options = [each.request.sampling for each in running]
    if all(option.temperature <= 0 for option in options):
        return None
    return SamplingParameters(
        temperature=torch.tensor([option.temperature for option in options]),
        top_k=torch.tensor([option.top_k for option in options]),
        top_p=torch.tensor([option.top_p for option in options]),
        noise=torch.tensor([noise_state(each.request.sampling.seed, each.position) for each in running]),
        restricted=any(option.top_k > 0 or option.top_p < 1 for option in options),
    )
