"""The options of a Marian transformer, checked and as our configuration."""

from typing import Any, Final

from model.config import Activation, DecoderMemory, ModelConfig, NormOrder
from model.formats.checked_source import Options, model_config

_LONGEST: Final = 512
"""Positions are computed, so any number would do."""
_NORM_EPSILON: Final = 1e-6
_ORDERS: Final[dict[tuple[str, ...], NormOrder]] = {("", "an", ""): "post", ("n", "a", "n"): "pre"}
"""Steps before and after a sublayer, and after a stack: a adds, n normalises; d, which drops, is left out."""
_MEMORIES: Final[dict[str, DecoderMemory]] = {"self-attention": "self_attention", "rnn": "ssru"}
_ACTIVATIONS: Final[dict[str, Activation]] = {"relu": "relu", "swish": "swish"}
_ONLY: Final[dict[str, tuple[Any, ...]]] = {
    "type": ("transformer",),
    "input-types": ([],),
    "layer-normalization": (False,),
    "lemma-dim-emb": (0,),
    "right-left": (False,),
    "transformer-attention-mask": ("default",),
    "transformer-decoder-dim-ffn": (0,),
    "transformer-decoder-ffn-depth": (0,),
    "transformer-disable-position-embeddings": (False,),
    "transformer-ffn-depth": (2,),
    "transformer-no-affine": (False,),
    "transformer-no-projection": (False,),
    "transformer-pool": (False,),
    "transformer-rnn-projection": (False,),
    "transformer-tied-layers": ([],),
    "transformer-train-position-embeddings": (False,),
    "transformer-train-positions": (False,),
    "ulr": (False,),
}
"""Options whose other values mean another computation."""


def configuration(options: Options) -> ModelConfig:
    """Return the configuration, with ids of the end and of padding as most vocabularies have them.

    Raises `CheckpointError` naming every option that is not supported.
    """
    for name, allowed in _ONLY.items():
        options.only(name, *allowed)
    memory = _MEMORIES[options.only("transformer-decoder-autoreg", *_MEMORIES)]
    if memory == "ssru":
        options.only("dec-cell", "ssru", default="gru")
    is_shared, source, target = _vocabularies(options)
    heads, d_model = options.number("transformer-heads"), options.number("dim-emb")
    if d_model % 2:
        options.refuse(f"dim-emb is {d_model}")
    return model_config(
        options,
        # One more stands for the embedding of zeros that a translation begins with.
        vocab_size=target + 1,
        source_vocab_size=None if is_shared else source,
        d_model=d_model,
        ffn_dim=options.number("transformer-dim-ffn"),
        num_heads=heads,
        encoder_layers=options.number("enc-depth"),
        decoder_layers=options.number("dec-depth"),
        max_positions=_LONGEST,
        norm_order=_order(options),
        norm_epsilon=_NORM_EPSILON,
        embedding_norm="n" in options.only("transformer-postprocess-emb", "d", "", "n", "nd", "dn"),
        activation=_ACTIVATIONS[options.only("transformer-ffn-activation", *_ACTIVATIONS, default="swish")],
        positions="table",
        decoder_memory=memory,
        tied_projection=bool(options.get("tied-embeddings-all", False) or options.get("tied-embeddings", False)),
        projection_bias=True,
        bos_id=target,
        pad_id=1,
        eos_id=0,
        dropout=0.0,
    )


def _order(options: Options) -> NormOrder:
    names = ("transformer-preprocess", "transformer-postprocess", "transformer-postprocess-top")
    stated = [str(options.get(name, default)) for name, default in zip(names, ("", "dan", ""), strict=True)]
    found = tuple(each.replace("d", "") for each in stated)
    if found not in _ORDERS:
        options.refuse(f"{', '.join(names)} are {', '.join(map(repr, stated))}")
    return _ORDERS.get(found, "post")


def _vocabularies(options: Options) -> tuple[bool, int, int]:
    """Return whether source and target share their embeddings, and how many words each has."""
    sizes = options.get("dim-vocabs")
    if not (isinstance(sizes, list) and len(sizes) == 2 and all(isinstance(size, int) for size in sizes)):
        options.refuse(f"dim-vocabs is {sizes}")
        return True, 0, 0
    source, target = sizes
    is_shared = bool(options.get("tied-embeddings-all", False) or options.get("tied-embeddings-src", False))
    if is_shared and source != target:
        options.refuse(f"embeddings are shared, and dim-vocabs is {sizes}")
    return is_shared, source, target
