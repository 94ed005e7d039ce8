"""Inputs and requested outputs of one decoder step."""

from typing import Final, NamedTuple

from torch import Tensor


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
