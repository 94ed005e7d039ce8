"""Between requests and a runner: the tensors that go into one step and come out of it."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from service.engine.scheduler import Running
from service.engine.writers import Row


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
    self_attention_rows: list[int]
    """Rows whose self-attention weights are wanted, in ascending order."""
    ahead: int = 0
    """How many further steps the runner may take unasked, with each row's best token as its next input."""


class StepScores(NamedTuple):
    """What a step gives; on the CPU."""

    tokens: Tensor
    """The most probable id of each row, the lowest of equal ones: int64 `[steps, rows]`, one step or `ahead` more."""
    logprobs: Tensor
    """Its log-probability, float32 `[steps, rows]`."""
    logits: Tensor
    """Of `logit_rows`: float32 `[len(logit_rows), vocab]`, the caller's to change."""
    alignment: Tensor | None = None
    """Of `alignment_rows`: weights over the source, float32 `[len(alignment_rows), longest source]`, 0 behind its end;
    None where none were asked for."""
    self_attention: Tensor | None = None
    """Of `self_attention_rows`: weights over positions 0 to a row's own, the mean of the heads of each decoder layer,
    float32 `[len(self_attention_rows), layers, longest]`, 0 behind its position; None where none were asked for."""


def source_batch(admitted: Sequence[Running]) -> SourceBatch:
    sources = [running.request.source_ids for running in admitted]
    lengths = [len(source) for source in sources]
    return SourceBatch(
        ids=torch.tensor([[token for source in sources for token in source]]),
        positions=torch.tensor([[position for length in lengths for position in range(length)]]),
        offsets=torch.tensor([0, *accumulate(lengths)]),
        lengths=lengths,
        slots=[running.slots[0] for running in admitted],
    )


def step_batch(
    rows: Sequence[Row], copies: list[tuple[int, int, int]], bos_id: int, *, may_run_ahead: bool = False
) -> StepBatch:
    # Made at once: a small tensor takes longer to make than a step takes for a row.
    tokens, positions, slots, source_slots, source_lengths = torch.tensor(
        [
            [row.ids[-1] if row.ids else bos_id for row in rows],
            [len(row.ids) for row in rows],
            [row.slot for row in rows],
            [row.source_slot for row in rows],
            [len(row.request.source_ids) for row in rows],
        ]
    ).unbind()
    return StepBatch(
        tokens,
        positions,
        slots,
        source_slots,
        source_lengths,
        copies=copies,
        logit_rows=[number for number, row in enumerate(rows) if row.needs_logits],
        alignment_rows=[number for number, row in enumerate(rows) if row.needs_alignment],
        self_attention_rows=[number for number, row in enumerate(rows) if row.needs_self_attention],
        ahead=min(row.ahead for row in rows) if may_run_ahead else 0,
    )
