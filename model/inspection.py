"""Attention whose weights can be looked at: K/V of a `SlotCache` that record what queries attend to.

The weights are the mean of the heads, `[rows, width]` in float32. Knows nothing of requests: who wants which weights is
the runner's matter.
"""

from collections.abc import Callable

from torch import Tensor

from model.attention import attention_weights
from model.cache import KV
from model.slot_cache import SlotKV, SlotRows


class InspectedKV:
    """A view of one layer's K/V that passes the weights of each call to `record` before it attends."""

    def __init__(self, view: SlotKV, record: Callable[[Tensor], object]) -> None:
        self._view = view
        self._record = record

    def attend(self, query: Tensor, mask: Tensor, dropout: float) -> Tensor:
        weights = attention_weights(query.float(), self._view.gathered().keys.float(), mask.float())
        self._record(weights.mean(dim=1)[:, 0])
        return self._view.attend(query, mask, dropout)


class InspectedCache:
    """Rows of the cache that pass each layer's number and weights to `record`; otherwise as `InspectedKV`."""

    def __init__(self, cache: SlotRows, record: Callable[[int, Tensor], object]) -> None:
        self._cache = cache
        self._record = record

    def update(self, layer: int, new: KV) -> InspectedKV:
        return InspectedKV(self._cache.update(layer, new), lambda weights: self._record(layer, weights))

    def recur(self, layer: int, keep: Tensor, new: Tensor) -> Tensor:
        """Advance a recurrent layer, which has no weights to record."""
        return self._cache.recur(layer, keep, new)
