"""Rules against repetition, applied to the logits of hypotheses before anything is chosen from them.

All rows of a batch at once: a small tensor takes longer to make than to work with.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


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
