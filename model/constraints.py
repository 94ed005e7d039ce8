"""Rules against repetition, applied to the logits of one hypothesis before anything is chosen from them."""

import math
from collections.abc import Sequence

from torch import Tensor


def penalise_repetition(logits: Tensor, ids: Sequence[int], penalty: float) -> None:
    """Make each of `ids` less probable, in `logits [vocab]` itself; a `penalty` of 1 changes nothing.

    A positive logit is divided by `penalty`, a negative one multiplied with it (Keskar et al. 2019, CTRL, section
    4.1, as in Hugging Face's RepetitionPenaltyLogitsProcessor). An id that occurs twice is penalised once.
    """
    seen = sorted(set(ids))
    old = logits[seen]
    logits[seen] = old.where(old < 0, old / penalty).where(old >= 0, old * penalty)


def forbid_repeated_ngrams(logits: Tensor, ids: Sequence[int], size: int) -> None:
    """Give -inf, in `logits [vocab]` itself, to what would complete an n-gram of `size` that `ids` already hold."""
    logits[repeating_tokens(ids, size)] = -math.inf


def repeating_tokens(ids: Sequence[int], size: int) -> list[int]:
    """What has followed the last `size - 1` of `ids` before (Paulus et al. 2017, section 2.5, for any size)."""
    assert size >= 1
    before = size - 1
    ending = list(ids[len(ids) - before :])
    starts = range(len(ids) - before)
    return sorted({ids[start + before] for start in starts if list(ids[start : start + before]) == ending})
