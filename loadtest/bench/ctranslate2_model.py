"""Our checkpoints as CTranslate2 models.

The converted model takes and gives the same ids: tokens are SentencePiece's pieces, a source has to end with eos as
everywhere here, and the decoder starts from bos. tests/model/formats/test_ctranslate2.py holds its outputs equal to
ours.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import sentencepiece
import torch
from ctranslate2.specs import Activation as TheirActivation
from ctranslate2.specs import TransformerSpec
from torch import Tensor, nn

from model.attention import MultiHeadAttention
from model.checkpoint import load_model
from model.checkpoint_config import load_config
from model.config import Activation
from model.layers import DecoderLayer, EncoderLayer, FeedForward, PreNorm
from model.transformer import Transformer

Quantization = Literal["float32", "int8"]

_ACTIVATIONS: Final[dict[Activation, TheirActivation]] = {
    "relu": TheirActivation.RELU,
    "gelu": TheirActivation.GELU,
    "swish": TheirActivation.SWISH,
}


def convert(checkpoint: Path, directory: Path, quantization: Quantization) -> None:
    """Write the CTranslate2 model of `checkpoint` into `directory`; raises `CheckpointError`."""
    spec = specification(load_model(checkpoint), pieces(checkpoint))
    spec.validate()
    spec.optimize(quantization=quantization)
    directory.mkdir(parents=True, exist_ok=True)
    spec.save(str(directory))


def pieces(checkpoint: Path) -> list[str]:
    """Return CTranslate2's name for each id of this checkpoint.

    Checkpoints of random weights have a tokenizer of a few pieces only; the other ids get names that are no pieces.
    """
    processor = sentencepiece.SentencePieceProcessor(model_file=str(checkpoint / "tokenizer.model"))
    vocab_size = load_config(checkpoint).model.vocab_size
    known = min(processor.get_piece_size(), vocab_size)
    return [processor.id_to_piece(i) for i in range(known)] + [f"<id {i}>" for i in range(known, vocab_size)]


# Any, here and below: CTranslate2 has no type annotations.
def specification(model: Transformer, tokens: Sequence[str]) -> Any:
    config = model.config
    model.requires_grad_(False)
    spec = TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.num_heads,
        pre_norm=config.norm_order == "pre",
        activation=_ACTIVATIONS[config.activation],
    )
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.bos_token = spec.config.decoder_start_token = tokens[config.bos_id]
    spec.config.eos_token = tokens[config.eos_id]
    # Tied: found to be equal, and stored once.
    spec.encoder.embeddings[0].weight = model.embedding.weight
    spec.decoder.embeddings.weight = model.embedding.weight
    spec.decoder.projection.weight = model.projection.weight
    _set_stack(spec.encoder, model.encoder_norm, model.source_input.table)
    _set_stack(spec.decoder, model.decoder_norm, model.target_input.table)
    for encoder_layer, encoder_module in zip(spec.encoder.layer, model.encoder, strict=True):
        assert isinstance(encoder_module, EncoderLayer)
        _set_encoder_layer(encoder_layer, encoder_module)
    for decoder_layer, decoder_module in zip(spec.decoder.layer, model.decoder, strict=True):
        assert isinstance(decoder_module, DecoderLayer)
        _set_decoder_layer(decoder_layer, decoder_module)
    return spec


def _set_stack(spec: Any, final_norm: nn.Module, positions: Tensor) -> None:
    # Their own positions have the sines first and then the cosines; ours alternate.
    spec.position_encodings.encodings = positions
    spec.scale_embeddings = True  # by sqrt(d_model), as ours
    if isinstance(final_norm, nn.LayerNorm):
        _set_norm(spec.layer_norm, final_norm)


def _set_encoder_layer(spec: Any, layer: EncoderLayer) -> None:
    _set_self_attention(spec.self_attention, layer.self_attention, layer.attention_residual)
    _set_feed_forward(spec.ffn, layer.feed_forward, layer.feed_forward_residual)


def _set_decoder_layer(spec: Any, layer: DecoderLayer) -> None:
    assert isinstance(layer.self_attention, MultiHeadAttention), "CTranslate2 has no recurrent decoders"
    _set_self_attention(spec.self_attention, layer.self_attention, layer.self_attention_residual)
    cross = layer.cross_attention
    _set_linear(spec.attention.linear[0], cross.query)
    _set_linear(spec.attention.linear[1], cross.key, cross.value)
    _set_linear(spec.attention.linear[2], cross.output)
    _set_norm(spec.attention.layer_norm, layer.cross_attention_residual.norm)
    _set_feed_forward(spec.ffn, layer.feed_forward, layer.feed_forward_residual)


def _set_self_attention(spec: Any, attention: MultiHeadAttention, residual: PreNorm) -> None:
    _set_linear(spec.linear[0], attention.query, attention.key, attention.value)
    _set_linear(spec.linear[1], attention.output)
    _set_norm(spec.layer_norm, residual.norm)


def _set_feed_forward(spec: Any, feed_forward: FeedForward, residual: PreNorm) -> None:
    _set_linear(spec.linear_0, feed_forward.inner)
    _set_linear(spec.linear_1, feed_forward.outer)
    _set_norm(spec.layer_norm, residual.norm)


def _set_linear(spec: Any, *layers: nn.Linear) -> None:
    """Set one layer from several, their outputs side by side."""
    spec.weight = torch.cat([layer.weight for layer in layers])
    spec.bias = torch.cat([layer.bias for layer in layers])


def _set_norm(spec: Any, norm: nn.Module) -> None:
    spec.gamma = norm.weight
    spec.beta = norm.bias
