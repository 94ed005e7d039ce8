"""Linear recurrences, s[p] = keep[p] * s[p - 1] + new[p]: over whole sequences, and over rows of slots.

`keep` and `new` are computed from the inputs alone, so only this sum goes from position to position. It is taken in
float32, even if the weights are in bfloat16: there, a state that hardly changes would not change at all.
"""

from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F

PLACES: Final = 2
"""Positions whose states a slot keeps, position p at `p % PLACES`: a step reads one and writes the other, so that it
may be repeated."""


def scan(keep: Tensor, new: Tensor) -> Tensor:
    """Return all states of sequences that begin with a state of zeros; `[batch, length, width]` each.

    Takes as many steps as the length has binary digits (Hillis and Steele 1986).
    """
    keep, states = keep.float(), new.float()
    reach = 1
    while reach < keep.shape[1]:
        front = (0, 0, reach, 0)
        states = states + keep * F.pad(states[:, :-reach], front)
        keep = keep * F.pad(keep[:, :-reach], front)
        reach *= 2
    return states


def advance_slots(buffer: Tensor, slots: Tensor, positions: Tensor, keep: Tensor, new: Tensor) -> Tensor:
    """Return the states of rows and keep them in their slots; `keep` and `new [rows, width]`.

    `buffer [slots + 1, PLACES, width]` has a last slot that is never read. Rows of the same slot (`slots`, `positions`
    `[rows]`) stand side by side, at consecutive positions. Nothing here depends on a tensor's value.
    """
    follows = F.pad((slots[1:] == slots[:-1]) & (positions[1:] == positions[:-1] + 1), (1, 0))
    reads_slot = ~follows & (positions > 0)
    before = torch.where(reads_slot[:, None], buffer[slots, (positions - 1) % PLACES], 0.0)
    states = scan((keep * follows[:, None])[None], (new + keep * before)[None])[0]
    # The state of the row after the next one takes the same place.
    is_replaced = F.pad(follows[1:-1] & follows[2:], (0, min(PLACES, len(slots))))
    buffer[torch.where(is_replaced, len(buffer) - 1, slots), positions % PLACES] = states
    return states
