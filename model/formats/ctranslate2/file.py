"""The format of `model.bin`, version 6 and before: a header, then every variable as name, shape, type and bytes, then
aliases. Integers are little-endian; strings carry their length.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from model.formats.checked_source import BinaryContent, open_binary

_VERSIONS: Final = range(4, 7)
_SETTINGS_APART: Final = 6
_SIDES_APART: Final = 5
_TYPES: Final = [torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16]
_MOVED: Final = {
    "encoder/embeddings/weight": "encoder/embeddings_0/weight",
    "encoder/embeddings/weight_scale": "encoder/embeddings_0/weight_scale",
    "encoder/embeddings/multiply_by_sqrt_depth": "encoder/scale_embeddings",
    "decoder/embeddings/multiply_by_sqrt_depth": "decoder/scale_embeddings",
    "alignment_layer": "decoder/alignment_layer",
    "alignment_heads": "decoder/alignment_heads",
    "embeddings_merge": "encoder/embeddings_merge",
}
_COMMON: Final = {"num_heads": 8, "pre_norm": 1, "activation": 0}
"""Checkpoints before revision 5 have these fields for both sides together; missing ones have these values."""
_TOKENS: Final = ("unk_token", "bos_token", "eos_token")
_FLAGS: Final = {
    "with_source_bos": False,
    "with_source_eos": False,
    "with_target_bos": True,
    "user_decoder_start_tokens": False,
}


class Content(NamedTuple):
    """Variables as the newest version of the format names them."""

    variables: dict[str, Tensor]
    settings: dict[str, Any]
    """Options of config.json, in versions that have them in this file instead."""


def read_content(path: Path) -> Content:
    """Variables by their names. Raises `CheckpointError`."""
    with open_binary(path) as content:
        version = content.number("I")
        if version not in _VERSIONS:
            raise ValueError(f"is not a CTranslate2 model of a known version: {version}")
        name = _string(content)
        if name != "TransformerSpec":
            raise ValueError(f"is a {name}, not an encoder-decoder transformer")
        revision = content.number("I")  # of the specification: the names of the variables
        found = {_string(content): _tensor(content) for _ in range(content.number("I"))}
        for _ in range(content.number("I")):
            alias = _string(content)
            found[alias] = found[_string(content)]
        content.check_end()
        if revision < _SIDES_APART:
            found = _moved(found)
        return Content(found, _settings(found) if version < _SETTINGS_APART else {})


def _tensor(content: BinaryContent) -> Tensor:
    shape = content.numbers("I", content.number("B"))
    kind, size = content.number("B"), content.number("I")
    if kind >= len(_TYPES):
        raise ValueError(f"type {kind} is not known")
    if math.prod(shape) * _TYPES[kind].itemsize != size:
        raise ValueError(f"a variable of shape {shape} has {size} bytes")
    return torch.frombuffer(bytearray(content.bytes(size)), dtype=_TYPES[kind]).view(shape)


def _string(content: BinaryContent) -> str:
    return content.bytes(content.number("H")).decode().removesuffix("\0")


def _moved(variables: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the variables of a revision before 5 by their names of today."""
    found = {_MOVED.get(name, name): value for name, value in variables.items()}
    for name, missing in _COMMON.items():
        value = found.pop(name, torch.tensor(missing, dtype=torch.int8))
        for side in ("encoder", "decoder"):
            found.setdefault(f"{side}/{name}", value)
    return found


def _settings(variables: dict[str, Tensor]) -> dict[str, Any]:
    """Take the options that are in config.json since version 6 out of the variables of an earlier version."""
    tokens = {name: variables.pop(name).numpy().tobytes().decode() for name in _TOKENS if name in variables}
    flags = {
        name: bool(variables.pop(name).item()) if name in variables else missing for name, missing in _FLAGS.items()
    }
    bos, eos = tokens.get("bos_token", "<s>"), tokens.get("eos_token", "</s>")
    start = bos if flags["with_target_bos"] else eos
    return tokens | {
        "add_source_bos": flags["with_source_bos"],
        "add_source_eos": flags["with_source_eos"],
        "decoder_start_token": None if flags["user_decoder_start_tokens"] else start,
    }
