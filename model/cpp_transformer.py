"""The encoder and the decode step as two calls of C++, in int8: the transformer's fastest form on a CPU.

It computes the same as the modules with every `nn.Linear` replaced by `Int8Linear` (one scale for each row of
activations, one for each output channel, exact products), with query, key and value in one product, without padding,
and with the best token found while the logits are still in the core's cache. Every row's result has the same bits alone
and among others. `model/kernels/int8_transformer.cpp` is the other half.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from model import kernels
from model.config import Activation, ModelConfig
from model.decode_step import NO_OUTPUTS, NO_PLAIN_ROWS, Outputs, PlainRows, Queries
from model.quantized_linear import INT8_MAX, quantise_rows
from model.sampling import Sampled
from model.shortlist import ALL_WORDS
from model.slot_cache import SlotCache
from model.topk import NO_BEAMS, Beams, Extensions
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
    """The best ones of each of `beams`, `[steps, beams, twice the largest size]` each."""


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
        shape = {
            "d_model": config.d_model,
            "num_heads": config.num_heads,
            "ffn_dim": config.ffn_dim,
            "encoder_layers": config.encoder_layers,
            "decoder_layers": config.decoder_layers,
            "alignment_layer": config.decoder_layers - 1,
            "slots": cache.slots,
            "target_positions": cache.max_target_length,
            "pre_norm": int(config.norm_order == "pre"),
            "recurrent": int(config.decoder_memory == "ssru"),
            "scale_embedding": int(config.scale_embedding),
            "shortlist": int(has_shortlist),
            "activation": _ACTIVATIONS[config.activation],
        }
        # Any: a class that C++ registers has no annotations.
        self._engine: Any = torch.classes.dragoman.Int8Transformer(shape, dict(_weights(model)), cache.buffers())
        self._eos_id = config.eos_id

    def encode(
        self, ids: Tensor, positions: Tensor, offsets: Tensor, slots: Sequence[int], allowed: Tensor = ALL_WORDS
    ) -> None:
        """Encode sources that stand one after the other, and keep their K/V in the cache's `slots`.

        `ids` and `positions [tokens]`; source s is tokens `offsets[s]` to `offsets[s + 1]`; all int64. With a
        shortlist, `allowed [sources, vocab]` has the words of each translation (`Shortlist.allowed`); all others get a
        logit of minus infinity, and cost nothing.
        """
        self._engine.encode(ids, positions, offsets, torch.tensor(slots), allowed)

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
        best, logprobs, counts, logits, alignment, self_attention, ids, sums = self._engine.decode(
            list(queries),
            [list(rows) for rows in outputs],
            [beams.rows, beams.totals],
            list(plain),
            [steps, self._eos_id],
            seconds,
        )
        extensions = Extensions(*ids, *sums)
        return DecodeScores(Sampled(best, logprobs), counts, logits, alignment, self_attention, extensions)


def _weights(model: Transformer) -> Iterator[tuple[str, Tensor]]:
    """Names as in `Transformer.state_dict`, except for linear layers that are applied to the same input: as one."""
    modules = dict(model.named_modules())
    yield "norm_epsilon", torch.tensor([model.config.norm_epsilon])
    target = model.embedding.weight.detach().float().contiguous()
    source = model.source_embedding
    yield "target_input.tokens", target
    yield "source_input.tokens", target if source is None else source.weight.detach().float().contiguous()
    yield "target_input.table", model.target_input.table.detach().float().contiguous()
    yield "source_input.table", model.source_input.table.detach().float().contiguous()
    for name, module in modules.items():
        if isinstance(module, nn.LayerNorm):
            yield f"{name}.weight", module.weight.detach().float().contiguous()
            yield f"{name}.bias", module.bias.detach().float().contiguous()
    names = {module: name for name, module in modules.items()}
    for name, parts in _linears(modules):
        rows = [_quantised(part, model.stored_scales.get(f"{names[part]}.weight")) for part in parts]
        quantised, scales = map(_together, zip(*rows, strict=True))
        for part in parts:
            del part.weight  # or there would be two of all of them
        yield f"{name}.weight", quantised.to(torch.int8)
        yield f"{name}.scale", scales
        yield f"{name}.bias", torch.cat([_bias(part) for part in parts])


def _quantised(linear: nn.Linear, stored: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return whole numbers and the scale of each row; those of a checkpoint in int8 as they were stored there."""
    weight = linear.weight.detach().float()
    if stored is not None:
        numbers = (weight * stored[:, None]).round_()
        if numbers.abs().max() <= INT8_MAX:
            return numbers, 1 / stored
    return quantise_rows(weight, INT8_MAX)


def _together(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))


def _linears(modules: dict[str, nn.Module]) -> Iterator[tuple[str, list[nn.Linear]]]:
    for name, module in modules.items():
        parent, _, own = name.rpartition(".")
        if not isinstance(module, nn.Linear) or own in {"key", "value", "forget"}:
            continue
        if own == "input":
            yield f"{parent}.recurrence", [module, *_siblings(modules, parent, "forget")]
        elif own != "query":
            yield name, [module]
        elif parent.endswith("self_attention"):
            yield f"{parent}.qkv", [module, *_siblings(modules, parent, "key", "value")]
        else:
            # The query is the target's, key and value are the source's.
            yield name, [module]
            yield f"{parent}.kv", _siblings(modules, parent, "key", "value")


def _siblings(modules: dict[str, nn.Module], parent: str, *names: str) -> list[nn.Linear]:
    return [each for name in names if isinstance(each := modules[f"{parent}.{name}"], nn.Linear)]


def _bias(linear: nn.Linear) -> Tensor:
    return torch.zeros(linear.out_features) if linear.bias is None else linear.bias.detach().float()
