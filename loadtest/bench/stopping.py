"""Random weights that stop on command: the first word of a source sets the number of tokens.

Without training no model ends a sentence when it should, and lengths forced from outside cost engines differently:
CTranslate2 takes one length for a batch, not one for each row. So the weights decide, which every engine meets in the
same way, greedy or with beams, float32 or int8, and none knows the length in advance. A sixth of the weights are 0 for
that; no engine here skips zeros.

How: no layer writes to some reserved dimensions of the residual, and no ordinary word has anything there. So the first
ones hold the position and nothing else, as sines and cosines. A length word brings the same code of the position at
which to stop, and a threshold. One head of the last cross-attention scores it by the product of the two codes less the
threshold: above 0 at that position, below 0 at any other, while all other words score 0. There alone it looks at the
length word, whose value raises a flag; and the flag is all that the (tied) embedding of eos reads.
"""

import math
from typing import Final, NamedTuple

import torch
from torch import Tensor

from loadtest.bench.workload import LONGEST, SHORTEST, length_word
from model.attention import MultiHeadAttention
from model.config import ModelConfig
from model.layers import DecoderLayer, FeedForward, sinusoidal_positions
from model.transformer import Transformer

_MOST_CODE: Final = 32
"""Dimensions of a code: enough to tell neighbouring positions apart."""

_AMPLITUDE: Final = 8.0
"""A length word's amplitude: well above the slow sines and cosines in its dimensions."""

_NORM: Final = 4.0
"""Layer norms divide by about 2; what follows suffices up to this."""

_SCORE: Final = 20.0
"""A length word's score at its position: e^20 leaves nothing to 80 other words."""

_FLAG_OFF: Final = -6.0
_FLAG_ON: Final = 30.0
"""Other dimensions are about 2."""

_EOS: Final = 4.0
"""The weight of eos in the flag's dimension: lifts its logit above any other, at most about sqrt(d_model)."""


class _Reserved(NamedTuple):
    """Dimensions of the residual. In all but the first, even ones hold about 0 (sines) and odd ones about 1 (cosines).

    `zero` and `one` are taken from the others before use, since layer norm shifts all of them alike.
    """

    positions: range
    codes: range
    flag: int
    threshold: int
    zero: int
    one: int


def stop_at_length_words(model: Transformer) -> None:
    """Change freshly initialised weights; `length_word` says which words are meant.

    The token that ends a translation, eos, is one of the tokens counted.
    """
    config = model.config
    reserved = _reserve(config)
    with torch.no_grad():
        _clear(model, reserved)
        positions = sinusoidal_positions(LONGEST, config.d_model)[:, : len(reserved.positions)]
        scale = _AMPLITUDE / math.sqrt(config.d_model)  # embeddings are multiplied by the root
        for length in range(SHORTEST, LONGEST + 1):
            word = model.embedding.weight[length_word(config, length)]
            # The decoder stands at position 0 when it generates the first token.
            word[reserved.codes.start : reserved.codes.stop] = scale * positions[length - 1]
            word[reserved.threshold] = -scale
        eos = model.embedding.weight[config.eos_id]
        eos.zero_()
        eos[reserved.flag] = _EOS
        last = model.decoder[-1]
        assert isinstance(last, DecoderLayer)
        _set_stop_head(last.cross_attention, reserved, positions)


def _reserve(config: ModelConfig) -> _Reserved:
    """Choose the dimensions. Sines and cosines come in pairs, and the comparing head has one more for the threshold."""
    size = min(_MOST_CODE, config.d_model // 4, config.head_dim - 1) // 2 * 2
    rest = config.d_model - 4
    assert size >= 2
    assert rest % 2 == 0
    return _Reserved(range(size), range(rest - size, rest), *range(rest, rest + 4))


def _clear(model: Transformer, reserved: _Reserved) -> None:
    dimensions = [*reserved.positions, *reserved.codes, *reserved[2:]]
    model.embedding.weight[:, dimensions] = 0.0
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.output.weight[dimensions] = 0.0
        elif isinstance(module, FeedForward):
            module.outer.weight[dimensions] = 0.0


def _set_stop_head(attention: MultiHeadAttention, reserved: _Reserved, positions: Tensor) -> None:
    """Set the first head. `positions [LONGEST, codes]` are the codes that it must tell apart."""
    products = positions @ positions.T
    highest = float(products.diagonal().min())
    second = float(products.fill_diagonal_(-math.inf).max())
    head_dim = attention.query.out_features // attention.num_heads
    loudness = _SCORE * _NORM**2 * math.sqrt(head_dim) / (_AMPLITUDE * (highest - second) / 2)
    for layer in (attention.query, attention.key, attention.value):
        layer.weight[:head_dim] = 0.0
    for row, (position, code) in enumerate(zip(reserved.positions, reserved.codes, strict=True)):
        _read(attention.query.weight[row], position, reserved.zero, loudness)
        _read(attention.key.weight[row], code, (reserved.zero, reserved.one)[code % 2], 1.0)
    row = len(reserved.codes)
    _read(attention.query.weight[row], reserved.one, reserved.zero, loudness * (highest + second) / 2)
    _read(attention.key.weight[row], reserved.threshold, reserved.one, 1.0)
    _read(attention.value.weight[0], reserved.threshold, reserved.one, -1.0)
    attention.output.weight[:, :head_dim] = 0.0
    attention.output.weight[reserved.flag, 0] = (_FLAG_ON - _FLAG_OFF) * _NORM / _AMPLITUDE
    attention.output.bias[reserved.flag] = _FLAG_OFF


def _read(weights: Tensor, dimension: int, reference: int, factor: float) -> None:
    """Let one output be `factor * (x[dimension] - x[reference])`."""
    weights[dimension] = factor
    weights[reference] = -factor
