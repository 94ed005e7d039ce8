"""The encoder and the decode step as two calls of C++, in int8: the transformer's fastest form on a CPU.

It computes the same as the modules with every `nn.Linear` replaced by `Int8Linear` (one scale for each row of
activations, one for each output channel, exact products), with query, key and value in one product, without padding,
and with the best token found while the logits are still in the core's cache. Every row's result has the same bits alone
and among others. `model/kernels/int8_transformer.cpp` is the other half.
"""

import ctypes
import weakref
from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

from model import kernels
from model.config import Activation, ModelConfig
from model.decode_step import NO_OUTPUTS, NO_PLAIN_ROWS, Outputs, PlainRows, Queries
from model.int8_weights import int8_weights
from model.kernels import library
from model.kernels.library import numbers, pointer
from model.sampling import Sampled
from model.shortlist import ALL_WORDS
from model.slot_cache import SlotCache
from model.topk import NO_BEAMS, NO_EXTENSIONS, Beams, Extensions
from model.transformer import Transformer

KV_DTYPE: Final = torch.bfloat16
"""Number type of the cache's keys and values: half the memory to read in each step, which long batches wait for."""

# `Epilogue` in model/kernels/compute.h.
_ACTIVATIONS: Final[dict[Activation, int]] = {"relu": 1, "gelu": 2, "swish": 3}


class DecodeScores(NamedTuple):
    """The results of a decode step."""

    best: Sampled
    """The most probable token of each row, or a sampled row's token, `[steps, rows]`."""
    counts: Tensor
    """The number of tokens of each plain row, `[plain rows]`; later ones are 0."""
    logits: Tensor
    """Logits for `outputs.logits` in the last step, float32 `[rows, vocab]`."""
    alignment: Tensor
    """Weights over the source for `outputs.alignment`, float32 `[rows, longest source]`, 0 after a source's end."""
    self_attention: Tensor
    """Weights over the row's own slot for `outputs.self_attention`, the mean of the heads of each layer, float32
    `[rows, layers, longest]`, 0 after a row's own position; no layers where the decoder is recurrent."""
    extensions: Extensions
    """The best ones of each of `beams`, `[steps, beams, twice the largest size]` each; empty without beams."""


class CppTransformer:
    """A float32 `Transformer` on a CPU as int8 in C++, reading and writing a `SlotCache` of `KV_DTYPE`.

    Moves the weights out of `model`, which cannot be used afterwards. Raises RuntimeError where there are no operators.
    """

    @staticmethod
    def is_available() -> bool:
        """Return True if the operators are there; build them if need be, which takes some seconds."""
        return kernels.load()

    @staticmethod
    def supports(config: ModelConfig) -> bool:
        """Return True if it computes transformers of this kind."""
        return (
            config.norm == "layer"
            and config.activation in _ACTIVATIONS
            and not config.gated
            and config.positions != "relative"
            and config.num_heads * config.head_dim == config.d_model
        )

    def __init__(self, model: Transformer, cache: SlotCache, *, has_shortlist: bool = False) -> None:
        """`has_shortlist` restricts logits to the words that each source is encoded with."""
        if not self.is_available():
            raise RuntimeError("the C++ operators could not be built")
        config = model.config
        assert self.supports(config)
        shape = library.Shape(
            config.d_model,
            config.num_heads,
            config.ffn_dim,
            config.encoder_layers,
            config.decoder_layers,
            config.decoder_layers - 1,  # whose attention is the alignment
            cache.slots,
            cache.max_target_length,
            config.norm_order == "pre",
            config.decoder_memory == "ssru",
            config.scale_embedding,
            has_shortlist,
            _ACTIVATIONS[config.activation],
            config.norm_epsilon,
        )
        weights = dict(int8_weights(model))
        buffers = cache.buffers()
        self._eos_id = config.eos_id
        self._vocab_size = len(weights["projection.weight"])
        layers = 0 if config.decoder_memory == "ssru" else config.decoder_layers
        self._no_outputs = torch.empty(0, self._vocab_size), torch.empty(0, 0), torch.empty(0, layers, 0)
        # The library packs numbers of int8, and reads all others where they are.
        self._kept = [*buffers.values(), *(each for each in weights.values() if each.dtype != torch.int8)]
        self._handle = library.new_transformer(shape, weights, buffers)
        weakref.finalize(self, library.delete_transformer, self._handle)

    def encode(
        self, ids: Tensor, positions: Tensor, offsets: Tensor, slots: Sequence[int], allowed: Tensor = ALL_WORDS
    ) -> None:
        """Encode sources that stand one after the other, and keep their K/V in the cache's `slots`.

        `ids` and `positions [tokens]`; source s is tokens `offsets[s]` to `offsets[s + 1]`; all int64. With a
        shortlist, `allowed [sources, vocab]` has the words of each translation (`Shortlist.allowed`); all others get a
        logit of minus infinity, and cost nothing. Raises RuntimeError for other tensors.
        """
        tokens, sources, words = ids.numel(), len(slots), allowed.numel()
        library.call(
            "transformer_encode",
            self._handle,
            pointer(ids, torch.int64, tokens, "int8: ids"),
            pointer(positions, torch.int64, tokens, "int8: positions"),
            tokens,
            pointer(offsets, torch.int64, sources + 1, "int8: offsets"),
            numbers(slots),
            sources,
            pointer(allowed, torch.bool, words, "int8: words"),
            words,
            torch.get_num_threads(),
        )

    def decode(
        self,
        queries: Queries,
        outputs: Outputs = NO_OUTPUTS,
        beams: Beams = NO_BEAMS,
        plain: PlainRows = NO_PLAIN_ROWS,
        steps: int = 1,
        seconds: float = 0.0,
    ) -> DecodeScores:
        """Run one step and up to `steps - 1` more, none of which would end after `seconds` if it took as long as the
        last.

        In the further steps each plain row, the last ones of `queries`, reads its own token until it has ended. A
        beam's rows are its best extensions: the first child of a row inherits its slot; others take, in their order,
        the lowest slots that had none. The end of a hypothesis ends the block.
        """
        batch, lists = library.batch_of(queries, outputs, beams, plain, (steps, self._eos_id, seconds))
        rows, beam_count = batch.rows, batch.beams
        best, logprobs = torch.zeros(steps, rows, dtype=torch.int64), torch.zeros(steps, rows)
        counts = torch.zeros(batch.plain, dtype=torch.int64)
        # Most steps need none of these.
        logits, alignment, self_attention = self._no_outputs
        extended, reach, widest = NO_EXTENSIONS, 0, 0
        if outputs.logits:
            logits = torch.empty(len(outputs.logits), self._vocab_size)
        if outputs.alignment:
            alignment = torch.empty(len(outputs.alignment), _longest(queries.source_lengths, outputs.alignment))
        if outputs.self_attention:
            reach = _longest(queries.positions, outputs.self_attention)
            self_attention = torch.empty(len(outputs.self_attention), self_attention.shape[1], reach + steps)
        if beam_count:
            widest = 2 * int(beams.rows[:, 2].max())
            shape = steps, beam_count, widest
            ids, sums = torch.empty(2, *shape, dtype=torch.int64), torch.empty(2, *shape)
            extended = Extensions(*ids, *sums)
        results = library.Scores(
            *(each.data_ptr() for each in (best, logprobs, counts, logits, alignment, self_attention)),
            *(alignment.shape[1], self_attention.shape[2], widest),
            *(each.data_ptr() for each in extended),
        )
        arguments = ctypes.byref(batch), ctypes.byref(results), torch.get_num_threads()
        done = library.call("transformer_decode", self._handle, *arguments)
        del lists  # which the batch points into
        if outputs.self_attention:
            self_attention = self_attention[:, :, : reach + done]
        if beam_count:
            extended = Extensions(*(each[:done] for each in extended))
        return DecodeScores(Sampled(best[:done], logprobs[:done]), counts, logits, alignment, self_attention, extended)


def _longest(lengths: Tensor, rows: Sequence[int]) -> int:
    """Return the largest length of some rows; 0 if there are none, and without those that do not exist."""
    values = lengths.tolist() if rows else []
    return max((values[row] for row in rows if 0 <= row < len(values)), default=0)
