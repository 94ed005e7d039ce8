"""Older versions of the format, rewritten as the newest one."""

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

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


def moved(variables: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the variables of a revision before 5 by their names of today."""
    found = {_MOVED.get(name, name): value for name, value in variables.items()}
    for name, missing in _COMMON.items():
        value = found.pop(name, torch.tensor(missing, dtype=torch.int8))
        for side in ("encoder", "decoder"):
            found.setdefault(f"{side}/{name}", value)
    return found


def settings(variables: dict[str, Tensor]) -> dict[str, Any]:
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
