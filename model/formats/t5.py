"""Directories of Hugging Face's transformers with T5 models: T5, T5 1.1 and MADLAD-400."""

import math
import re
from pathlib import Path
from typing import Final

import sentencepiece
from torch import Tensor

from model.checkpoint_config import CheckpointError, Direction, LanguageHint
from model.config import ModelConfig
from model.formats.checked_source import (
    ACTIVATIONS,
    Imported,
    Options,
    attention,
    model_config,
    read_files,
    read_json,
    read_weights,
    table,
)
from model.formats.multilingual import Parts, codes_of
from model.formats.vocabulary import Vocabulary
from model.subwords import JsonPieces
from model.tokenizer import Prompt

_ENCODER: Final = [
    *attention("encoder.{i}.self_attention", "encoder.block.{i}.layer.0.SelfAttention", *"qkvo"),
    ("encoder.{i}.attention_residual.norm", "encoder.block.{i}.layer.0.layer_norm"),
    ("encoder.{i}.feed_forward_residual.norm", "encoder.block.{i}.layer.1.layer_norm"),
    ("encoder.{i}.feed_forward.outer", "encoder.block.{i}.layer.1.DenseReluDense.wo"),
]
_DECODER: Final = [
    *attention("decoder.{i}.self_attention", "decoder.block.{i}.layer.0.SelfAttention", *"qkvo"),
    ("decoder.{i}.self_attention_residual.norm", "decoder.block.{i}.layer.0.layer_norm"),
    *attention("decoder.{i}.cross_attention", "decoder.block.{i}.layer.1.EncDecAttention", *"qkvo"),
    ("decoder.{i}.cross_attention_residual.norm", "decoder.block.{i}.layer.1.layer_norm"),
    ("decoder.{i}.feed_forward_residual.norm", "decoder.block.{i}.layer.2.layer_norm"),
    ("decoder.{i}.feed_forward.outer", "decoder.block.{i}.layer.2.DenseReluDense.wo"),
]
MODEL_TYPES: Final = frozenset({"t5", "mt5"})
_TAG: Final = re.compile(r"<2([a-z]{2,3}(?:_[A-Z][a-z]{3})?)>")  # <2translate> and others are not languages
_LONGEST: Final = 512  # relative positions have no end; these models were trained on so many tokens
_T5_LANGUAGES: Final = {"en": "English", "de": "German", "fr": "French", "ro": "Romanian"}


def read(directory: Path, hint: LanguageHint) -> Imported:
    """Raises `CheckpointError` for anything unsupported, missing, left over or broken."""
    path = directory / "config.json"
    options = Options(read_json(path), path)
    config = _config(options)
    # T5 divides what goes into the output projection by sqrt(d_model), T5 1.1 does not. Newer files say so, in older
    # ones it shows in whether the projection is tied.
    scales_outputs = options.get("scale_decoder_outputs", options.get("tie_word_embeddings", True))
    weights = _weights(directory, config, scales_outputs=scales_outputs)
    files, pieces = _pieces(directory)
    parts = Parts(directory, Vocabulary(files, pieces), config, weights)
    names = [found[1] for piece in pieces if (found := _TAG.fullmatch(piece))]
    if names:
        tags = {code: f"<2{name}>" for code, name in codes_of(names).items()}
        return parts.imported(Prompt(languages=tags), languages=tuple(sorted(tags)))
    prompt = Prompt(languages=_T5_LANGUAGES, text_prefix="translate {source} to {target}: ", source_prefix=())
    directions = tuple(Direction(source="en", target=code) for code in _T5_LANGUAGES if code != "en")
    return parts.imported(prompt, directions=directions)


def _pieces(directory: Path) -> tuple[dict[str, bytes], list[str]]:
    """Return the files of the tokenizer, and its pieces."""
    for name in ("spiece.model", "sentencepiece.model"):
        if (directory / name).exists() and not (directory / "tokenizer.json").exists():
            files = read_files(directory, {name: "tokenizer.model"})
            processor = sentencepiece.SentencePieceProcessor(model_proto=files["tokenizer.model"])
            return files, [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    files = read_files(directory, {"tokenizer.json": "tokenizer.json"})
    try:
        pieces = JsonPieces(files["tokenizer.json"])
    except ValueError as error:
        raise CheckpointError(f"{directory}: {error}") from None
    return files, [pieces.name(i) for i in range(len(pieces))]


def _config(options: Options) -> ModelConfig:
    gate, _, activation = options.only(
        "feed_forward_proj", "relu", "gated-gelu", *ACTIVATIONS, *(f"gated-{name}" for name in ACTIVATIONS)
    ).rpartition("-")
    # T5 says gated-gelu and computes its approximation by tanh.
    activation = "gelu_new" if (gate, activation) == ("gated", "gelu") else activation
    return model_config(
        options,
        vocab_size=options.number("vocab_size"),
        d_model=options.number("d_model"),
        ffn_dim=options.number("d_ff"),
        num_heads=options.number("num_heads"),
        head_size=options.number("d_kv"),
        encoder_layers=options.number("num_layers"),
        decoder_layers=options.number("num_decoder_layers", options.number("num_layers")),
        max_positions=_LONGEST,
        norm_order="pre",
        norm="rms",
        norm_epsilon=options.get("layer_norm_epsilon", 1e-6),
        activation=ACTIVATIONS[activation],
        gated=gate == "gated",
        biases=False,
        positions="relative",
        relative_buckets=options.number("relative_attention_num_buckets", 32),
        relative_distance=options.number("relative_attention_max_distance", 128),
        scale_embedding=False,
        tied_projection=False,
        pad_id=options.number("pad_token_id"),
        bos_id=options.number("decoder_start_token_id", options.number("pad_token_id")),
        eos_id=options.number("eos_token_id"),
        dropout=0.0,
    )


def _weights(directory: Path, config: ModelConfig, *, scales_outputs: bool) -> dict[str, Tensor]:
    stored = read_weights(directory)
    inner = [("inner", "wi_0"), ("gate", "wi_1")] if config.gated else [("inner", "wi")]
    weights = dict(
        stored.renamed(
            [
                *table(config.encoder_layers, [*_ENCODER, *_inner("encoder", 1, inner)], ["weight"]),
                *table(config.decoder_layers, [*_DECODER, *_inner("decoder", 2, inner)], ["weight"]),
                ("encoder_norm.weight", "encoder.final_layer_norm.weight"),
                ("decoder_norm.weight", "decoder.final_layer_norm.weight"),
                ("source_bias.biases.weight", _bias_name("encoder")),
                ("target_bias.biases.weight", _bias_name("decoder")),
                ("embedding.weight", "shared.weight"),
            ]
        )
    )
    projection = stored.take_if("lm_head.weight")
    projection = weights["embedding.weight"].clone() if projection is None else projection
    weights["projection.weight"] = projection.float() * config.d_model**-0.5 if scales_outputs else projection
    # T5's first files have a bias of cross attention, too, which nothing has ever read.
    unread = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    stored.drop("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", unread)
    stored.check()
    # T5 does not divide scores by sqrt(head_dim): its queries are that much louder here.
    for name in list(weights):
        if name.endswith("query.weight"):
            weights[name] = weights[name].float() * math.sqrt(config.head_dim)
    return weights


def _inner(stack: str, layer: int, names: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [
        (f"{stack}.{{i}}.feed_forward.{ours}", f"{stack}.block.{{i}}.layer.{layer}.DenseReluDense.{theirs}")
        for ours, theirs in names
    ]


def _bias_name(stack: str) -> str:
    return f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
