"""The key table of CTranslate2's transformers: their variables as our weights."""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from model.checkpoint import scale_of
from model.config import ModelConfig
from model.formats.checked_source import NEVER, Weights, sines_then_cosines

SOURCE: Final = "encoder/embeddings_0/weight"
TARGET: Final = "decoder/embeddings/weight"
DECODER_OUT: Final = "decoder/projection"
PROJECTION: Final = f"{DECODER_OUT}/weight"
TABLES: Final = ("encoder/position_encodings/encodings", "decoder/position_encodings/encodings")

_QKV: Final = ("self_attention.query", "self_attention.key", "self_attention.value")
_LINEARS: Final = {
    "encoder": {
        _QKV: "self_attention/linear_0",
        ("self_attention.output",): "self_attention/linear_1",
        ("feed_forward.inner",): "ffn/linear_0",
        ("feed_forward.outer",): "ffn/linear_1",
    },
    "decoder": {
        _QKV: "self_attention/linear_0",
        ("self_attention.output",): "self_attention/linear_1",
        ("cross_attention.query",): "attention/linear_0",
        ("cross_attention.key", "cross_attention.value"): "attention/linear_1",
        ("cross_attention.output",): "attention/linear_2",
        ("feed_forward.inner",): "ffn/linear_0",
        ("feed_forward.outer",): "ffn/linear_1",
    },
}
_NORMS: Final = {
    "encoder": {
        "attention_residual.norm": "self_attention/layer_norm",
        "feed_forward_residual.norm": "ffn/layer_norm",
    },
    "decoder": {
        "self_attention_residual.norm": "self_attention/layer_norm",
        "cross_attention_residual.norm": "attention/layer_norm",
        "feed_forward_residual.norm": "ffn/layer_norm",
    },
}


class Variables(Weights):
    """Tensors in their own types; int8 ones with their scales, as our checkpoints have them."""

    def named(self, ours: Sequence[str], theirs: str, extra: int = 0) -> dict[str, Tensor]:
        """Return one tensor of theirs as several of ours, whose rows stand below one another; `extra` rows are zero."""
        tensor = functional.pad(self.take(theirs), (0, 0, 0, extra))
        scale = self.take_if(f"{theirs}_scale")
        if (tensor.dtype == torch.int8) != (scale is not None):
            self.refuse(f"{theirs} is {tensor.dtype} and has {'no' if scale is None else 'a'} scale")
        parts = _parts(ours, tensor)
        if scale is not None:
            parts |= _parts([scale_of(name) for name in ours], functional.pad(scale, (0, extra), value=1.0))
        return parts

    def linear(self, ours: Sequence[str], theirs: str) -> dict[str, Tensor]:
        """Return one layer of theirs as several of ours, whose outputs stand side by side. A missing bias is zero."""
        weights = self.named([f"{name}.weight" for name in ours], f"{theirs}/weight")
        bias = self.take_if(f"{theirs}/bias")
        if bias is None:
            bias = torch.zeros(sum(len(weights[f"{name}.weight"]) for name in ours))
        return weights | _parts([f"{name}.bias" for name in ours], bias)

    def norm(self, ours: str, theirs: str) -> dict[str, Tensor]:
        return {f"{ours}.weight": self.take(f"{theirs}/gamma"), f"{ours}.bias": self.take(f"{theirs}/beta")}


def _parts(names: Sequence[str], tensor: Tensor) -> dict[str, Tensor]:
    return dict(zip(names, tensor.chunk(len(names)), strict=True))


def translated(stored: Variables, config: ModelConfig, *, starts_from_zero: bool) -> dict[str, Tensor]:
    """Our weights. Raises `CheckpointError` for those that are missing or left over."""
    extra = int(starts_from_zero)
    weights = _layer_weights(stored, config) | _input_weights(stored, config)
    weights |= stored.named(["embedding.weight"], TARGET, extra)
    if config.source_vocab_size is None:
        stored.drop(SOURCE, f"{SOURCE}_scale")
    else:
        weights |= stored.named(["source_embedding.weight"], SOURCE)
    if config.tied_projection:
        stored.drop(PROJECTION, f"{PROJECTION}_scale")
    else:
        weights |= stored.named(["projection.weight"], PROJECTION, extra)
    if config.projection_bias:
        bias = stored.take_if(f"{DECODER_OUT}/bias")
        bias = torch.zeros(config.vocab_size - extra) if bias is None else bias.float()
        weights["projection.bias"] = functional.pad(bias, (0, extra), value=NEVER)
    stored.check()
    return weights


def _layer_weights(stored: Variables, config: ModelConfig) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for i in range(layers):
            for ours, theirs in _LINEARS[side].items():
                weights |= stored.linear([f"{side}.{i}.{name}" for name in ours], f"{side}/layer_{i}/{theirs}")
            for norm, theirs in _NORMS[side].items():
                weights |= stored.norm(f"{side}.{i}.{norm}", f"{side}/layer_{i}/{theirs}")
        if config.norm_order == "pre":
            weights |= stored.norm(f"{side}_norm", f"{side}/layer_norm")
    return weights


def _input_weights(stored: Variables, config: ModelConfig) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for side, place in (("source", "encoder"), ("target", "decoder")):
        if config.embedding_norm:
            weights |= stored.norm(f"{side}_input.norm", f"{place}/layernorm_embedding")
        encodings = stored.take_if(f"{place}/position_encodings/encodings")
        if encodings is None:  # CTranslate2 computes them, counted from 1 (OpenNMT-tf)
            encodings = sines_then_cosines(1, config.max_positions, config.d_model)
        weights[f"{side}_input.table"] = encodings[: config.max_positions].clone()
    return weights
