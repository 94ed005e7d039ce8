"""Hugging Face directories of models that descend from fairseq: Marian, M2M100 and NLLB, BART and mBART.

They share names and differ in where they normalise, how positions are counted, and where language tags stand. T5 is in
`t5.py`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from model.checkpoint_config import LanguageHint
from model.config import ModelConfig
from model.formats.checked_source import (
    ACTIVATIONS,
    Imported,
    Options,
    Weights,
    attention,
    impossible,
    model_config,
    ordered,
    read_files,
    read_json,
    read_weights,
    sines_then_cosines,
    table,
    vocabulary_files,
)
from model.formats.multilingual import (
    Parts,
    one_pair,
    source_tag_suffix,
    tagged_both_sides,
    target_tag_prefix,
    tokenizer_class,
)
from model.formats.vocabulary import Vocabulary, read_vocabulary
from model.tokenizer import Prompt

_PROJECTIONS: Final = ("q_proj", "k_proj", "v_proj", "out_proj")
_ENCODER: Final = [
    *attention("encoder.{i}.self_attention", "encoder.layers.{i}.self_attn", *_PROJECTIONS),
    ("encoder.{i}.attention_residual.norm", "encoder.layers.{i}.self_attn_layer_norm"),
    ("encoder.{i}.feed_forward.inner", "encoder.layers.{i}.fc1"),
    ("encoder.{i}.feed_forward.outer", "encoder.layers.{i}.fc2"),
    ("encoder.{i}.feed_forward_residual.norm", "encoder.layers.{i}.final_layer_norm"),
]
_DECODER: Final = [
    *attention("decoder.{i}.self_attention", "decoder.layers.{i}.self_attn", *_PROJECTIONS),
    ("decoder.{i}.self_attention_residual.norm", "decoder.layers.{i}.self_attn_layer_norm"),
    *attention("decoder.{i}.cross_attention", "decoder.layers.{i}.encoder_attn", *_PROJECTIONS),
    ("decoder.{i}.cross_attention_residual.norm", "decoder.layers.{i}.encoder_attn_layer_norm"),
    ("decoder.{i}.feed_forward.inner", "decoder.layers.{i}.fc1"),
    ("decoder.{i}.feed_forward.outer", "decoder.layers.{i}.fc2"),
    ("decoder.{i}.feed_forward_residual.norm", "decoder.layers.{i}.final_layer_norm"),
]
_FIRST_POSITION: Final = 2  # fairseq counts from after its padding's id


def read(directory: Path, hint: LanguageHint) -> Imported:
    """Raises `CheckpointError` for anything unsupported, missing, left over or broken."""
    path = directory / "config.json"
    values = read_json(path)
    options = Options(values, path)
    kind = options.only("model_type", *_READERS)
    options.check()
    return _READERS[kind](directory, options, hint)


def _marian(directory: Path, options: Options, hint: LanguageHint) -> Imported:
    options.only("static_position_embeddings", True)
    options.only("normalize_embedding", False)
    options.only("normalize_before", False)
    options.only("add_final_layer_norm", False)
    shared = options.get("share_encoder_decoder_embeddings", True)
    target_size = options.number("decoder_vocab_size", options.number("vocab_size"))
    config = _config(
        options,
        vocab_size=target_size,
        source_vocab_size=None if shared else options.number("vocab_size"),
        norm_order="post",
        projection_bias=True,
    )
    weights = _weights(directory, config)
    positions = _marian_positions(config)
    weights |= {f"{side}_input.table": positions.clone() for side in ("source", "target")}
    # The padding begins a translation and does not belong to it.
    weights["projection.bias"] = weights["projection.bias"].float() + impossible(config.vocab_size, config.pad_id)
    vocabulary = ordered(read_json(directory / "vocab.json"), config.source_vocab_size or config.vocab_size)
    files = read_files(directory, {"source.spm": "source.model", "target.spm": "target.model"})
    target_vocabulary = vocabulary
    if (directory / "target_vocab.json").exists():
        target_vocabulary = ordered(read_json(directory / "target_vocab.json"), config.vocab_size)
    files |= vocabulary_files(vocabulary, target_vocabulary)
    return target_tag_prefix(Parts(directory, Vocabulary(files, vocabulary), config, weights), hint)


def _m2m100(directory: Path, options: Options, hint: LanguageHint) -> Imported:
    config = _config(options, vocab_size=options.number("vocab_size"), norm_order="pre")
    weights = _weights(directory, config)
    # Counted from after the padding's id.
    positions = sines_then_cosines(config.pad_id + 1, config.max_positions, config.d_model)
    weights |= {f"{side}_input.table": positions.clone() for side in ("source", "target")}
    return tagged_both_sides(Parts(directory, read_vocabulary(directory, config.vocab_size), config, weights))


def _mbart(directory: Path, options: Options, hint: LanguageHint) -> Imported:
    config = _config(
        options,
        start=options.number("eos_token_id"),
        vocab_size=options.number("vocab_size"),
        norm_order="pre",
        embedding_norm=True,
        projection_bias=True,
    )
    weights = _weights(directory, config)
    parts = Parts(directory, read_vocabulary(directory, config.vocab_size), config, weights)
    # That of the first kind is also what transformers takes where nothing is stated; the second is MBart50Tokenizer.
    stated = tokenizer_class(directory) or options.get("tokenizer_class", "MBartTokenizer")
    if "MBartTokenizer" in stated:
        return source_tag_suffix(parts, hint)
    return tagged_both_sides(parts)


def _bart(directory: Path, options: Options, hint: LanguageHint) -> Imported:
    config = _config(
        options,
        vocab_size=options.number("vocab_size"),
        norm_order="post",
        embedding_norm=True,
        projection_bias=True,
    )
    weights = _weights(directory, config)
    prompt = Prompt(source_prefix=("<s>",), source_suffix=("</s>",))
    files = read_files(directory, {"tokenizer.json": "tokenizer.json"})
    return one_pair(Parts(directory, Vocabulary(files, []), config, weights), hint, prompt)


_READERS: Final[dict[str, Callable[[Path, Options, LanguageHint], Imported]]] = {
    "marian": _marian,
    "m2m_100": _m2m100,
    "mbart": _mbart,
    "bart": _bart,
}
MODEL_TYPES: Final = frozenset(_READERS)


def _config(options: Options, start: int | None = None, **fields: Any) -> ModelConfig:
    """Read the options that all of them name alike; `start` is the default of the id that starts the decoder."""
    if not options.get("tie_word_embeddings", True):
        fields["tied_projection"] = False
    return model_config(
        options,
        d_model=options.number("d_model"),
        ffn_dim=options.same("encoder_ffn_dim", "decoder_ffn_dim"),
        num_heads=options.same("encoder_attention_heads", "decoder_attention_heads"),
        encoder_layers=options.number("encoder_layers"),
        decoder_layers=options.number("decoder_layers"),
        max_positions=options.number("max_position_embeddings"),
        activation=ACTIVATIONS[options.only("activation_function", *ACTIVATIONS)],
        positions="table",
        scale_embedding=bool(options.get("scale_embedding", False)),
        pad_id=options.number("pad_token_id"),
        bos_id=options.number("decoder_start_token_id", start),
        eos_id=options.number("eos_token_id"),
        dropout=0.0,
        **fields,
    )


def _weights(directory: Path, config: ModelConfig) -> dict[str, Tensor]:
    stored = read_weights(directory)
    named = [
        *table(config.encoder_layers, _ENCODER),
        *table(config.decoder_layers, _DECODER),
        *_norms(config),
    ]
    weights = dict(stored.renamed((ours, f"model.{theirs}") for ours, theirs in named))
    weights |= _embeddings(stored, config)
    if config.projection_bias:
        bias = stored.take_if("final_logits_bias")
        weights["projection.bias"] = torch.zeros(config.vocab_size) if bias is None else bias.flatten()
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        learned = stored.take_if(f"model.{stack}.embed_positions.weight")
        # Of sinusoidal positions some files have the table; it is computed.
        if config.embedding_norm:
            if learned is None:
                stored.take(f"model.{stack}.embed_positions.weight")
            else:
                weights[f"{side}_input.table"] = learned[_FIRST_POSITION:][: config.max_positions]
    for stack in ("encoder", "decoder"):
        stored.drop(f"model.{stack}.embed_positions.weights", f"model.{stack}.version")
    stored.check()
    return weights


def _norms(config: ModelConfig) -> list[tuple[str, str]]:
    names = []
    if config.norm_order == "pre":
        names += [("encoder_norm", "encoder.layer_norm"), ("decoder_norm", "decoder.layer_norm")]
    if config.embedding_norm:
        names += [
            ("source_input.norm", "encoder.layernorm_embedding"),
            ("target_input.norm", "decoder.layernorm_embedding"),
        ]
    return table(1, names)


def _embeddings(stored: Weights, config: ModelConfig) -> dict[str, Tensor]:
    """Take the embeddings, each stored under one or several of its names."""
    encoder, decoder = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
    weights = {}
    if config.source_vocab_size is not None:
        weights["source_embedding.weight"] = stored.take(encoder)
        target_names = [decoder]
    else:
        target_names = ["model.shared.weight", decoder, encoder]
    if config.tied_projection:
        target_names.append("lm_head.weight")
    else:
        weights["projection.weight"] = stored.take("lm_head.weight")
    found = [tensor for name in target_names if (tensor := stored.take_if(name)) is not None]
    weights["embedding.weight"] = found[0] if found else stored.take(target_names[0])
    return weights


def _marian_positions(config: ModelConfig) -> Tensor:
    """Sines, then cosines (Marian's order)."""
    half = torch.arange(0, config.d_model, 2, dtype=torch.float64) / config.d_model
    angles = torch.arange(config.max_positions, dtype=torch.float64)[:, None] / 10000**half
    return torch.cat([angles.sin(), angles.cos()[:, : config.d_model // 2]], dim=1).float()
