"""The options of a CTranslate2 model, checked and as our configuration."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from torch import Tensor

from model.checkpoint_config import CheckpointError
from model.config import Activation, ModelConfig
from model.formats.checked_source import Options, model_config
from model.formats.ctranslate2.weights import DECODER_OUT, PROJECTION, SOURCE, TABLES, TARGET

_ACTIVATIONS: Final[dict[int, Activation]] = {0: "relu", 1: "gelu_tanh", 2: "swish", 3: "gelu"}
_LONGEST: Final = 512  # where no table of positions has a length
ZERO_START: Final = "decoder/start_from_zero_embedding"
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
_NUMBERS: Final = _IGNORED | {ZERO_START, *(f"{side}/{name}" for side in _SIDES for name in _UNDERSTOOD)}


class Special(NamedTuple):
    """Pieces with a meaning of their own, and other options of config.json."""

    start: str | None
    """The piece that a translation begins with; None where the caller has to choose it."""
    eos: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    norm_epsilon: float


def special_pieces(settings: Options) -> Special:
    """Read the special pieces from config.json. Raises `CheckpointError`."""
    bos, eos = settings.get("bos_token", "<s>"), settings.get("eos_token", "</s>")
    settings.only("multi_query_attention", False)
    for name in ("quantization_type", "quantization_bits", "quantization_group_size"):
        settings.only(name, None)
    settings.check()
    return Special(
        settings.get("decoder_start_token") if settings.has("decoder_start_token") else bos,
        eos,
        (bos,) if settings.get("add_source_bos", False) else (),
        (eos,) if settings.get("add_source_eos", False) else (),
        settings.get("layer_norm_epsilon", 1e-5),
    )


def configuration(
    numbers: Options, tensors: Mapping[str, Tensor], special: Special, words: Sequence[str]
) -> ModelConfig:
    """Build the configuration from the options of model.bin, `numbers`. Raises `CheckpointError`."""
    numbers.known(_NUMBERS)
    numbers.only("decoder/alibi", 0)
    for side in _SIDES:
        numbers.only(f"{side}/multi_query_attention", 0)
    pre_norm = numbers.same("encoder/pre_norm", "decoder/pre_norm")
    activation = numbers.same("encoder/activation", "decoder/activation")
    if activation not in _ACTIVATIONS:
        numbers.refuse(f"activation {activation}")
    numbers.check()
    for name in ("encoder/layer_0/ffn/linear_0/weight", SOURCE, TARGET, PROJECTION):
        if name not in tensors:
            raise CheckpointError(f"there is no {name}: not a transformer that is known")
    target, source = tensors[TARGET], tensors[SOURCE]
    from_zero = bool(numbers.get(ZERO_START, 0))
    scaled = {side: _is_scaled(numbers, side, target.shape[1]) for side in _SIDES}
    if scaled["encoder"] != scaled["decoder"]:
        numbers.refuse("scale_embeddings is not the same of encoder and decoder")
    ids = {word: i for i, word in reversed(list(enumerate(words)))}
    start = special.eos if from_zero else special.start or special.eos
    for word in (special.eos, start):
        if word not in ids:
            raise CheckpointError(f"{word} is not in the vocabulary")
    eos = ids[special.eos]
    tables = [tensors[name] for name in TABLES if name in tensors]
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
        norm_epsilon=special.norm_epsilon,
        activation=_ACTIVATIONS[activation],
        positions="table",
        scale_embedding=scaled["encoder"],
        embedding_norm="encoder/layernorm_embedding/gamma" in tensors,
        tied_projection=tensors[PROJECTION] is target,
        projection_bias=from_zero or f"{DECODER_OUT}/bias" in tensors,
        # There is no padding in CTranslate2; any id will do that does not end a sentence.
        pad_id=0 if eos else 1,
        bos_id=len(target) if from_zero else ids[start],
        eos_id=eos,
        dropout=0.0,
    )


def asks_for_all_tokens(numbers: Options, special: Special) -> bool:
    """Return True for a model of transformers, whose tokenizer adds what others' models add themselves.

    These and fairseq's models store the scale of embeddings, not whether there is one; fairseq's and Marian's add the
    end.
    """
    says_scale = isinstance(numbers.get("encoder/scale_embeddings"), float)
    return (says_scale or bool(numbers.get(ZERO_START, 0))) and not special.after


def _is_scaled(numbers: Options, side: str, d_model: int) -> bool:
    """Return True if embeddings are scaled: a flag in OpenNMT's and Marian's models, the scale itself in the others."""
    scale = numbers.get(f"{side}/scale_embeddings", 1)
    if isinstance(scale, int):
        return bool(scale)
    if scale == 1:
        return False
    if not math.isclose(scale, math.sqrt(d_model), rel_tol=0.01):  # as far as bfloat16 goes
        numbers.refuse(f"{side}/scale_embeddings is {scale}")
    return True


def _layers(side: str, tensors: Mapping[str, Tensor]) -> int:
    return len({name.split("/")[1] for name in tensors if name.startswith(f"{side}/layer_") and name.count("/") > 2})
