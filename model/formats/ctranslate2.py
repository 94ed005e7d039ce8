"""CTranslate2's directories, and Argos packages around them: models that Marian, OpenNMT and fairseq have trained.

The format of `model.bin`, version 6 and before: a header, then every variable as name, shape, type and bytes, then
aliases. Integers are little-endian; strings carry their length.
"""

import json
import math
import mmap
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from model.config import Activation, ModelConfig
from model.formats.reading import (
    NEVER,
    Imported,
    Options,
    Weights,
    languages_unknown,
    model_config,
    read_json,
)
from model.manifest import CheckpointConfig, CheckpointError, Direction, Wanted
from model.tokenizer import Prompt, Tokenizer

_VERSIONS: Final = range(4, 7)
_TYPES: Final = [torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16]
_ACTIVATIONS: Final[dict[int, Activation]] = {0: "relu", 1: "gelu_tanh", 2: "swish", 3: "gelu"}
_START: Final = "<start>"
_LONGEST: Final = 512  # where no table of positions says how far it goes
_ZERO_START: Final = "decoder/start_from_zero_embedding"
_UNDERSTOOD: Final = ("num_heads", "pre_norm", "activation", "scale_embeddings", "multi_query_attention", "alibi")
# Of alignments there is our own; embeddings are merged where there are several.
_IGNORED: Final = frozenset(
    {
        "decoder/alignment_heads",
        "decoder/alignment_layer",
        "decoder/alibi_use_positive_positions",
        "decoder/scale_alibi",
        "encoder/embeddings_merge",
    }
)
_SIDES: Final = ("encoder", "decoder")
_NUMBERS: Final = _IGNORED | {_ZERO_START, *(f"{side}/{name}" for side in _SIDES for name in _UNDERSTOOD)}
_SOURCE: Final = "encoder/embeddings_0/weight"
_TARGET: Final = "decoder/embeddings/weight"
_DECODER_OUT: Final = "decoder/projection"
_PROJECTION: Final = f"{_DECODER_OUT}/weight"
_TABLES: Final = ("encoder/position_encodings/encodings", "decoder/position_encodings/encodings")

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


def find(path: Path) -> Path | None:
    """The directory of the model in `path`: that, or the `model` of an unpacked Argos package in or below it."""
    for directory in (path, path / "model", *path.glob("*/model")):
        if (directory / "model.bin").exists():
            return directory
    return None


def read(directory: Path, wanted: Wanted) -> Imported:
    """`directory` holds model.bin. Raises `CheckpointError` for what is not supported, missing, left over or broken."""
    path = directory / "model.bin"
    variables = _read_variables(path)
    numbers = {name: value.item() for name, value in variables.items() if not value.dim()}
    tensors = {name: value for name, value in variables.items() if value.dim()}
    described = directory / "config.json"
    settings = Options(read_json(described) if described.exists() else {}, described)
    special = _special(settings)
    source_words, target_words = _vocabularies(directory)
    config = _config(Options(numbers, path), tensors, special, target_words)
    weights = _weights(_Variables(tensors, path), config, starts_from_zero=bool(numbers.get(_ZERO_START)))
    if config.bos_id == len(target_words):
        target_words = [*target_words, _START]
        source_words = target_words if config.source_vocab_size is None else source_words
    prompt = Prompt(source_prefix=special.before, source_suffix=special.after)
    tokenizer = Tokenizer(_tokenizer_files(directory, source_words, target_words), prompt)
    described_ours = CheckpointConfig(directions=(_direction(directory, wanted),), prompt=prompt, model=config)
    return Imported(described_ours, weights, tokenizer)


def _read_variables(path: Path) -> dict[str, Tensor]:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _Reader(content).variables()
    except (OSError, ValueError, struct.error, UnicodeDecodeError, RuntimeError) as error:
        raise CheckpointError(f"{path}: {error}") from None


class _Reader:
    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        self._place = 0

    def variables(self) -> dict[str, Tensor]:
        version = self._number("<I")
        if version not in _VERSIONS:
            raise ValueError(f"is no CTranslate2 model of a version that is known: {version}")
        name = self._string()
        if name != "TransformerSpec":
            raise ValueError(f"is a {name}, not an encoder-decoder transformer")
        self._number("<I")  # the revision of this specification; what is in it, the names of the variables say
        found = {self._string(): self._tensor() for _ in range(self._number("<I"))}
        for _ in range(self._number("<I")):
            alias = self._string()
            found[alias] = found[self._string()]
        if self._place != len(self._content):
            raise ValueError(f"{len(self._content) - self._place} bytes are left over")
        return found

    def _tensor(self) -> Tensor:
        shape = [self._number("<I") for _ in range(self._number("<B"))]
        kind, size = self._number("<B"), self._number("<I")
        if kind >= len(_TYPES):
            raise ValueError(f"type {kind} is not known")
        if math.prod(shape) * _TYPES[kind].itemsize != size:
            raise ValueError(f"a variable of shape {shape} has {size} bytes")
        return torch.frombuffer(bytearray(self._bytes(size)), dtype=_TYPES[kind]).view(shape)

    def _string(self) -> str:
        return self._bytes(self._number("<H")).decode().removesuffix("\0")

    def _number(self, kind: str) -> int:
        [value] = struct.unpack(kind, self._bytes(struct.calcsize(kind)))
        return int(value)

    def _bytes(self, count: int) -> bytes:
        end = self._place + count
        if end > len(self._content):
            raise ValueError("ends too early")
        read = self._content[self._place : end]
        self._place = end
        return read


class _Special(NamedTuple):
    """Pieces with a meaning of their own."""

    start: str
    eos: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def _special(settings: Options) -> _Special:
    bos, eos = settings.get("bos_token", "<s>"), settings.get("eos_token", "</s>")
    settings.only("multi_query_attention", False)
    settings.only("layer_norm_epsilon", 1e-5)
    for name in ("quantization_type", "quantization_bits", "quantization_group_size"):
        settings.only(name, None)
    settings.check()
    return _Special(
        settings.get("decoder_start_token", bos),
        eos,
        (bos,) if settings.get("add_source_bos", False) else (),
        (eos,) if settings.get("add_source_eos", False) else (),
    )


def _config(numbers: Options, tensors: Mapping[str, Tensor], special: _Special, words: Sequence[str]) -> ModelConfig:
    numbers.known(
        _IGNORED | {f"{side}/{name}" for side in ("encoder", "decoder") for name in _UNDERSTOOD} | {_ZERO_START}
    )
    numbers.only("decoder/alibi", 0)
    for side in _SIDES:
        numbers.only(f"{side}/multi_query_attention", 0)
    pre_norm = numbers.same("encoder/pre_norm", "decoder/pre_norm")
    activation = numbers.same("encoder/activation", "decoder/activation")
    if activation not in _ACTIVATIONS:
        numbers.refuse(f"activation {activation}")
    scale = numbers.same("encoder/scale_embeddings", "decoder/scale_embeddings")
    if scale not in (0, 1):
        numbers.refuse(f"scale_embeddings is {scale}")
    numbers.check()
    for name in ("encoder/layer_0/ffn/linear_0/weight", _SOURCE, _TARGET, _PROJECTION):
        if name not in tensors:
            raise CheckpointError(f"there is no {name}: not a transformer that is known")
    target, source = tensors[_TARGET], tensors[_SOURCE]
    from_zero = bool(numbers.get(_ZERO_START, 0))
    ids = {word: i for i, word in reversed(list(enumerate(words)))}
    for word in (special.eos, *(() if from_zero else (special.start,))):
        if word not in ids:
            raise CheckpointError(f"{word} is not in the vocabulary")
    eos = ids[special.eos]
    tables = [tensors[name] for name in _TABLES if name in tensors]
    return model_config(
        numbers,
        vocab_size=len(target) + from_zero,
        source_vocab_size=None if source is target else len(source),
        d_model=target.shape[1],
        ffn_dim=len(tensors["encoder/layer_0/ffn/linear_0/weight"]),
        num_heads=numbers.same("encoder/num_heads", "decoder/num_heads"),
        encoder_layers=_layers("encoder", tensors),
        decoder_layers=_layers("decoder", tensors),
        max_positions=min((len(table) for table in tables), default=_LONGEST),
        norm_order="pre" if pre_norm else "post",
        activation=_ACTIVATIONS[activation],
        positions="table",
        scale_embedding=bool(scale),
        embedding_norm="encoder/layernorm_embedding/gamma" in tensors,
        tied_projection=tensors[_PROJECTION] is target,
        projection_bias=from_zero or f"{_DECODER_OUT}/bias" in tensors,
        # There is no padding in CTranslate2; any id will do that does not end a sentence.
        pad_id=0 if eos else 1,
        bos_id=len(target) if from_zero else ids[special.start],
        eos_id=eos,
        dropout=0.0,
    )


def _layers(side: str, tensors: Mapping[str, Tensor]) -> int:
    return len({name.split("/")[1] for name in tensors if name.startswith(f"{side}/layer_") and name.count("/") > 2})


class _Variables(Weights):
    """Tensors in float32: integers are multiplied out, biases that are missing are zero."""

    def take(self, name: str) -> Tensor:
        tensor = super().take(name)
        scale = self.take_if(f"{name}_scale")
        if tensor.dtype == torch.int8 and scale is None:
            self.refuse(f"{name} is int8 without a scale")
        return tensor.float() if scale is None else tensor.float() / scale[:, None]

    def linear(self, ours: Sequence[str], theirs: str) -> dict[str, Tensor]:
        """One layer of theirs as several of ours, whose outputs stand side by side."""
        weight = self.take(f"{theirs}/weight")
        bias = self.take_if(f"{theirs}/bias")
        bias = torch.zeros(len(weight)) if bias is None else bias.float()
        parts = {"weight": weight.chunk(len(ours)), "bias": bias.chunk(len(ours))}
        return {
            f"{name}.{kind}": tensor
            for kind, tensors in parts.items()
            for name, tensor in zip(ours, tensors, strict=True)
        }

    def norm(self, ours: str, theirs: str) -> dict[str, Tensor]:
        return {f"{ours}.weight": self.take(f"{theirs}/gamma"), f"{ours}.bias": self.take(f"{theirs}/beta")}


def _weights(stored: _Variables, config: ModelConfig, *, starts_from_zero: bool) -> dict[str, Tensor]:
    weights = _layer_weights(stored, config) | _input_weights(stored, config)
    extra = int(starts_from_zero)
    weights["embedding.weight"] = functional.pad(stored.take(_TARGET), (0, 0, 0, extra))
    if config.source_vocab_size is None:
        stored.drop(_SOURCE, f"{_SOURCE}_scale")
    else:
        weights["source_embedding.weight"] = stored.take(_SOURCE)
    if config.tied_projection:
        stored.drop(_PROJECTION, f"{_PROJECTION}_scale")
    else:
        weights["projection.weight"] = functional.pad(stored.take(_PROJECTION), (0, 0, 0, extra))
    if config.projection_bias:
        bias = stored.take_if(f"{_DECODER_OUT}/bias")
        bias = torch.zeros(config.vocab_size - extra) if bias is None else bias.float()
        weights["projection.bias"] = functional.pad(bias, (0, extra), value=NEVER)
    stored.check()
    return weights


def _layer_weights(stored: _Variables, config: ModelConfig) -> dict[str, Tensor]:
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


def _input_weights(stored: _Variables, config: ModelConfig) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for side, place in (("source", "encoder"), ("target", "decoder")):
        if config.embedding_norm:
            weights |= stored.norm(f"{side}_input.norm", f"{place}/layernorm_embedding")
        encodings = stored.take_if(f"{place}/position_encodings/encodings")
        table = _positions(config) if encodings is None else encodings.float()
        weights[f"{side}_input.table"] = table[: config.max_positions].clone()
    return weights


def _positions(config: ModelConfig) -> Tensor:
    """What CTranslate2 computes where a model has no table: sines, then cosines, counted from 1 (OpenNMT-tf's)."""
    half = config.d_model // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float64) * -(math.log(10000) / (half - 1)))
    angles = torch.arange(1, config.max_positions + 1, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1).float()


def _vocabularies(directory: Path) -> tuple[list[str], list[str]]:
    """Of source and target; the same list where they share it."""
    shared = _vocabulary(directory, "shared_vocabulary") or _vocabulary(directory, "vocabulary")
    source, target = _vocabulary(directory, "source_vocabulary"), _vocabulary(directory, "target_vocabulary")
    if shared is not None:
        return shared, shared
    if source is None or target is None:
        raise CheckpointError(f"{directory} has no vocabulary")
    return source, target


def _vocabulary(directory: Path, name: str) -> list[str] | None:
    if (path := directory / f"{name}.json").exists():
        words = read_json(path)
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise CheckpointError(f"{path}: is not a list of words")
        return words
    if (path := directory / f"{name}.txt").exists():
        return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return None


def _tokenizer_files(directory: Path, source: list[str], target: list[str]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for place in (directory, directory.parent):
        if (shared := place / "sentencepiece.model").exists():
            files["tokenizer.model"] = shared.read_bytes()
            break
        if (sides := [place / "source.spm", place / "target.spm"]) and all(path.exists() for path in sides):
            files |= {"source.model": sides[0].read_bytes(), "target.model": sides[1].read_bytes()}
            break
    else:
        raise CheckpointError(f"{directory}: neither sentencepiece.model nor source.spm and target.spm are there")
    if source is target:
        return files | {"vocabulary.json": json.dumps(target, ensure_ascii=False).encode()}
    both = {"source_vocabulary.json": source, "target_vocabulary.json": target}
    return files | {name: json.dumps(words, ensure_ascii=False).encode() for name, words in both.items()}


def _direction(directory: Path, wanted: Wanted) -> Direction:
    described = directory.parent / "metadata.json"
    said = read_json(described) if described.exists() else {}
    source, target = wanted.source or said.get("from_code"), wanted.target or said.get("to_code")
    if not source or not target:
        raise languages_unknown(directory)
    return Direction(source=source, target=target)
