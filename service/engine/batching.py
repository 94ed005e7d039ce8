"""From a plan's requests to the tensors of one step."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from model.cache import Slots
from model.sampling import SamplingParameters, noise_state
from service.engine.scheduler import Running


class SourceBatch(NamedTuple):
    """Sources to encode: `ids [rows, width]` padded on the right, `lengths [rows]`, `slots [rows]`."""

    ids: Tensor
    lengths: Tensor
    slots: Tensor


class StepBatch(NamedTuple):
    """Rows to advance: last `tokens [rows, 1]` at `positions [rows, 1]`, in `slots`.

    `keys` and `source_width` are how many target and source positions the longest row needs.
    """

    tokens: Tensor
    positions: Tensor
    slots: Slots
    source_lengths: Tensor
    keys: int
    source_width: int


def source_batch(admitted: Sequence[Running], pad_id: int) -> SourceBatch:
    sources = [torch.tensor(running.request.source_ids) for running in admitted]
    return SourceBatch(
        ids=torch.nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=pad_id),
        lengths=torch.tensor([len(source) for source in sources]),
        slots=torch.tensor([running.slot for running in admitted]),
    )


def step_batch(running: Sequence[Running], bos_id: int) -> StepBatch:
    lengths = [len(each.request.source_ids) for each in running]
    # Running requests come in the order of their slots; while the queue is full there are no holes.
    dense = running[-1].slot == len(running) - 1
    return StepBatch(
        tokens=torch.tensor([[each.tokens[-1] if each.tokens else bos_id] for each in running]),
        positions=torch.tensor([[each.position] for each in running]),
        slots=slice(0, len(running)) if dense else torch.tensor([each.slot for each in running]),
        source_lengths=torch.tensor(lengths),
        keys=max(each.position for each in running) + 1,
        source_width=max(lengths),
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
