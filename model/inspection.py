"""Attention whose weights can be looked at: K/V of a `SlotCache` that record what queries attend to.

The weights are the mean of the heads. Knows nothing of requests: who wants which weights is the runner's matter.
"""

from collections.abc import Callable, Sequence

from torch import Tensor

from model.attention import attention_weights, padding_mask
from model.cache import KV, KeyValueView
from model.slot_cache import PaddedKV, SlotKV, SlotRows


class InspectedKV:
    """A view of one layer's K/V that passes the weights of each call to `record` before it attends.

    Of a `SlotKV` these are the weights of `rows`, `[len(rows), longest of them]`; of a `PaddedKV` those of all rows,
    `[rows, width]`. In float32.
    """

    def __init__(
        self, view: SlotKV | PaddedKV, record: Callable[[Tensor], object], rows: Sequence[int] | None = None
    ) -> None:
        self._view = view
        self._record = record
        self._rows = rows

    def attend(self, query: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
        view = self._view
        if isinstance(view, SlotKV):
            assert self._rows is not None
            self._record(_slot_weights(view, query, list(self._rows)))
        else:
            assert mask is not None
            self._record(_padded_weights(view, query, mask))
        return view.attend(query, mask, dropout)


class InspectedCache:
    """Rows of the cache that pass each layer's number and weights to `record`; otherwise as `InspectedKV`."""

    def __init__(
        self,
        cache: SlotRows[SlotKV] | SlotRows[PaddedKV],
        record: Callable[[int, Tensor], object],
        rows: Sequence[int] | None = None,
    ) -> None:
        self._cache = cache
        self._record = record
        self._rows = rows

    def update(self, layer: int, new: KV) -> KeyValueView:
        return InspectedKV(self._cache.update(layer, new), lambda weights: self._record(layer, weights), self._rows)

    def recur(self, layer: int, keep: Tensor, new: Tensor) -> Tensor:
        """Advance a recurrent layer, which has no weights to record."""
        return self._cache.recur(layer, keep, new)


def _slot_weights(view: SlotKV, query: Tensor, rows: list[int]) -> Tensor:
    slots, lengths = view.slots[rows, 0], view.lengths[rows, 0]
    width = int(lengths.max())
    hidden = padding_mask(lengths, width, query.dtype)
    return attention_weights(query[rows], view.keys[slots, :, :width], hidden).mean(dim=1)[:, 0].float()


def _padded_weights(view: PaddedKV, query: Tensor, mask: Tensor) -> Tensor:
    weights = attention_weights(query.float(), view.gathered().keys.float(), mask.float())
    return weights.mean(dim=1)[:, 0]
