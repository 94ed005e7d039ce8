"""The key table of Marian's transformers: their parameters as our weights."""

from pathlib import Path
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from model.checkpoint import scale_of
from model.config import DecoderMemory, ModelConfig
from model.formats.checked_source import NEVER, Weights, impossible, sines_then_cosines
from model.formats.marian.file import Content

_ATTENTION: Final = {"query": "q", "key": "k", "value": "v", "output": "o"}
_FEED_FORWARD: Final = {"inner": "1", "outer": "2"}
_OWN: Final[dict[DecoderMemory, str]] = {"self_attention": "self", "ssru": "rnn"}
_OUTPUT: Final = "decoder_ff_logit_out"
_STATIC_SCALE: Final = "_QuantMultA"
"""The end of a name: a scale of activations. Rows have scales of their own here."""


class Parameters(Weights):
    """Parameters by Marian's names; `check` refuses missing, leftover and wrong ones, all at once."""

    def __init__(self, content: Content, path: Path) -> None:
        kept = {name: each for name, each in content.parameters.items() if not name.endswith(_STATIC_SCALE)}
        super().__init__(kept, path)
        self._multipliers = content.multipliers

    def has(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str) -> Tensor:
        """Return a parameter, which has two dimensions; an empty one where it is missing or wrong, until `check`."""
        found = super().take(name)
        if found.dim() == 2:
            return found
        self.refuse(f"{name} has the shape {list(found.shape)}")
        return torch.zeros(0, 0)

    def vector(self, name: str) -> Tensor:
        """Return a bias or a part of a norm."""
        if name in self._multipliers:
            self.refuse(f"{name} is int8")
        return self.take(name).flatten()

    def linear(self, ours: str, theirs: str, extra: int = 0) -> dict[str, Tensor]:
        """Return a matrix as our `[out, in]`, with `extra` outputs that are 0."""
        values = self.take(theirs)
        return self._scaled(ours, theirs, values if theirs in self._multipliers else values.T, extra)

    def rows(self, ours: str, theirs: str, extra: int = 0) -> dict[str, Tensor]:
        """Return a table of words, with `extra` rows of zeros."""
        return self._scaled(ours, theirs, self.take(theirs), extra)

    def _scaled(self, ours: str, theirs: str, values: Tensor, extra: int) -> dict[str, Tensor]:
        if values.numel():  # PyTorch 2.8 refuses to pad what is empty, as a missing matrix is
            values = functional.pad(values, (0, 0, 0, extra)).contiguous()
        if theirs not in self._multipliers:
            return {ours: values}
        return {ours: values, scale_of(ours): torch.full((len(values),), self._multipliers[theirs])}


def translated(stored: Parameters, config: ModelConfig, unknown: int) -> dict[str, Tensor]:
    """Return our weights, with which the piece `unknown` is never written, as Marian does not by default.

    Raises `CheckpointError` for parameters missing or left over.
    """
    weights: dict[str, Tensor] = {}
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for i in range(layers):
            ours, theirs = f"{side}.{i}", f"{side}_l{i + 1}"
            weights |= _feed_forward(stored, config, ours, f"{theirs}_ffn")
            if side == "encoder":
                weights |= _attention(stored, f"{ours}.self_attention", f"{theirs}_self")
                weights |= _norm(stored, config, f"{ours}.attention_residual.norm", f"{theirs}_self_Wo")
            else:
                weights |= _decoder_attention(stored, config, ours, theirs)
        if config.norm_order == "pre":
            weights |= _scale_and_bias(stored, f"{side}_norm", f"{side}_top")
    weights |= _inputs(stored, config) | _output(stored, config, unknown)
    stored.check()
    return weights


def _decoder_attention(stored: Parameters, config: ModelConfig, ours: str, theirs: str) -> dict[str, Tensor]:
    own, norm = f"{theirs}_{_OWN[config.decoder_memory]}", f"{ours}.self_attention_residual.norm"
    if config.decoder_memory == "ssru":
        weights = stored.linear(f"{ours}.self_attention.input.weight", f"{own}_W")
        weights |= _linear(stored, f"{ours}.self_attention.forget", own, "f")
        weights |= _norm(stored, config, norm, own if config.norm_order == "pre" else f"{own}_ffn")
    else:
        weights = _attention(stored, f"{ours}.self_attention", own)
        weights |= _norm(stored, config, norm, f"{own}_Wo")
    weights |= _attention(stored, f"{ours}.cross_attention", f"{theirs}_context")
    return weights | _norm(stored, config, f"{ours}.cross_attention_residual.norm", f"{theirs}_context_Wo")


def _attention(stored: Parameters, ours: str, theirs: str) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for name, letter in _ATTENTION.items():
        weights |= _linear(stored, f"{ours}.{name}", theirs, letter)
    return weights


def _feed_forward(stored: Parameters, config: ModelConfig, ours: str, theirs: str) -> dict[str, Tensor]:
    weights = _norm(stored, config, f"{ours}.feed_forward_residual.norm", f"{theirs}_ffn")
    for name, number in _FEED_FORWARD.items():
        weights |= _linear(stored, f"{ours}.feed_forward.{name}", theirs, number)
    return weights


def _linear(stored: Parameters, ours: str, theirs: str, suffix: str) -> dict[str, Tensor]:
    bias = {f"{ours}.bias": stored.vector(f"{theirs}_b{suffix}")}
    return stored.linear(f"{ours}.weight", f"{theirs}_W{suffix}") | bias


def _norm(stored: Parameters, config: ModelConfig, ours: str, theirs: str) -> dict[str, Tensor]:
    return _scale_and_bias(stored, ours, theirs, "_pre" if config.norm_order == "pre" else "")


def _scale_and_bias(stored: Parameters, ours: str, theirs: str, suffix: str = "") -> dict[str, Tensor]:
    parts = {"weight": "scale", "bias": "bias"}
    return {f"{ours}.{one}": stored.vector(f"{theirs}_ln_{other}{suffix}") for one, other in parts.items()}


def _inputs(stored: Parameters, config: ModelConfig) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    shared = config.source_vocab_size is None
    # A translation begins with an embedding of zeros.
    weights |= stored.rows("embedding.weight", "Wemb" if shared else "decoder_Wemb", extra=1)
    if not shared:
        weights |= stored.rows("source_embedding.weight", "encoder_Wemb")
    table = sines_then_cosines(0, config.max_positions, config.d_model)
    for side, theirs in (("source", "encoder"), ("target", "decoder")):
        weights[f"{side}_input.table"] = table.clone()
        if config.embedding_norm:
            weights |= _scale_and_bias(stored, f"{side}_input.norm", f"{theirs}_emb", "_pre")
    return weights


def _output(stored: Parameters, config: ModelConfig, unknown: int) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    words = config.vocab_size - 1
    if not config.tied_projection:
        # Transposed since version 1.8.
        if stored.has(f"{_OUTPUT}_Wt"):
            weights |= stored.rows("projection.weight", f"{_OUTPUT}_Wt", extra=1)
        else:
            weights |= stored.linear("projection.weight", f"{_OUTPUT}_W", extra=1)
    bias = stored.vector(f"{_OUTPUT}_b") if stored.has(f"{_OUTPUT}_b") else torch.zeros(words)
    if len(bias) == words:
        bias = bias + impossible(words, unknown)
    return weights | {"projection.bias": functional.pad(bias, (0, 1), value=NEVER)}
