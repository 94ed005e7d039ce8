"""The encoder with a fixed shape, as `model.static_decode_step`: so many tokens of sources, one after the other."""

from torch import Tensor

from model.attention import segment_mask
from model.slot_cache import SlotCache
from model.transformer import Transformer


class StaticEncodeStep:
    """Encodes the sources of `inputs` into their slots of `cache`.

    `inputs [4, tokens]`, int64, has each token's id and position, the number of its source, and that one's slot.
    Not for relative positions: the biases of all pairs of tokens would take more memory than padding does.
    """

    def __init__(self, model: Transformer, cache: SlotCache, inputs: Tensor) -> None:
        self._inputs = inputs
        self._model = model
        self._cache = cache

    def __call__(self) -> None:
        ids, positions, sources, slots = self._inputs
        mask = segment_mask(sources[None], sources[None], self._model.embedding.weight.dtype)
        encoded = self._model.encode_segments(ids[None], positions[None], mask)
        self._cache.write_source_tokens(slots, positions, encoded)
