"""A checkpoint is a directory: `config.json`, `model.safetensors`, `tokenizer.model`, perhaps `shortlist.safetensors`.

A matrix may be stored in int8, with a scale for each of its rows beside it: what that was multiplied by.
Loading is strict: unknown config keys, missing or leftover weights and wrong shapes are all refused,
in one error that lists every problem. `config.json` has the SHA-256 of each other file, so that none is read
which is not as it was written; checkpoints of before that have none, and are read unverified.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from model.checkpoint_config import (
    SHORTLIST_FILE,
    WEIGHTS_FILE,
    CheckpointConfig,
    CheckpointError,
    load_config,
    sha256_of,
    verify,
)
from model.config import ModelConfig
from model.quantized_linear import INT8_MAX, quantise_rows
from model.shortlist import Shortlist
from model.tokenizer import Tokenizer
from model.transformer import Transformer


def save_checkpoint(
    directory: Path,
    config: CheckpointConfig,
    weights: dict[str, Tensor],
    tokenizer: Tokenizer,
    dtype: torch.dtype | None = torch.float16,
    shortlist: Shortlist | None = None,
) -> CheckpointConfig:
    """Write a checkpoint that `load_model` reads; `weights` are a `Transformer.state_dict()`.

    Returns the config as it is written: with the sums of the files beside it.
    The weights are stored as `dtype`, or as they are if it is None: then some may be int8, with their scales
    (`scale_of`). As int8, vectors stay float16.
    """
    directory.mkdir(parents=True, exist_ok=True)
    tied = _tied(config.model)
    weights = {name: tensor for name, tensor in weights.items() if name not in tied}
    if dtype == torch.int8:
        stored = _in_int8(weights)
    else:
        stored = {name: tensor.to(dtype or tensor.dtype).contiguous() for name, tensor in weights.items()}
    path = directory / WEIGHTS_FILE
    _save(stored, path)
    names = [WEIGHTS_FILE, *tokenizer.files]
    if shortlist is not None:
        _save(shortlist._asdict(), directory / SHORTLIST_FILE)
        names.append(SHORTLIST_FILE)
    for name, content in tokenizer.files.items():
        (directory / name).write_bytes(content)
    sums = {name: sha256_of(directory / name) for name in names}
    config = config.model_copy(update={"sha256": sums})
    (directory / "config.json").write_text(config.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return config


def scale_of(name: str) -> str:
    """Return the name of the scales `[rows]` of a matrix that is stored in int8."""
    return f"{name}.scale"


class _NoRandomNumbers(TorchFunctionMode):
    """Leaves out the random numbers that modules fill their weights with: they would take a third of the loading."""

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.__name__ in {"kaiming_uniform_", "uniform_", "normal_"}:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def load_model(directory: Path, dtype: torch.dtype = torch.float32) -> Transformer:
    """Load the model in evaluation mode, its weights converted to `dtype`; raises `CheckpointError`."""
    config = load_config(directory)
    path = directory / WEIGHTS_FILE
    verify(path, config)
    with _NoRandomNumbers():
        model = Transformer(config.model)
    tied = _tied(config.model)
    expected = {name: tensor for name, tensor in model.state_dict().items() if name not in tied}
    try:
        with safe_open(path, "pt") as file:
            stored = set(file.keys())
        problems = [f"missing {name}" for name in expected.keys() - stored]
        problems += [f"unexpected {name}" for name in stored - expected.keys() - {*map(scale_of, expected)}]
        for name in expected.keys() & stored:
            scale = _read(path, scale_of(name)) if scale_of(name) in stored else None
            problems += _filled(expected[name], _read(path, name), scale, name)
            if scale is not None:
                names = [name, *(other for other, one in tied.items() if one == name)]
                model.stored_scales |= dict.fromkeys(names, scale)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: {error}") from None
    if problems:
        raise CheckpointError(f"{path}: {'; '.join(sorted(problems))}")
    return model.to(dtype).eval()


def load_shortlist(directory: Path) -> Shortlist | None:
    """Load the model's lexical shortlist, if it has one; raises `CheckpointError`."""
    config = load_config(directory)
    if not config.has_shortlist:
        return None
    path = directory / SHORTLIST_FILE
    verify(path, config)
    try:
        tensors = load_file(path)
        shortlist = Shortlist(**tensors)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: {error}") from None
    except TypeError:
        names = ", ".join(Shortlist._fields)
        raise CheckpointError(f"{path}: has {', '.join(sorted(tensors)) or 'nothing'}, expected {names}") from None
    model = config.model
    if problems := shortlist.problems(model.source_vocab_size or model.vocab_size, model.vocab_size):
        raise CheckpointError(f"{path}: {'; '.join(problems)}")
    return shortlist


def _in_int8(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    stored = {name: tensor.half().contiguous() for name, tensor in weights.items() if tensor.dim() == 1}
    for name in weights.keys() - stored.keys():
        numbers, scales = quantise_rows(weights[name].float(), INT8_MAX)
        stored |= {name: numbers.to(torch.int8).contiguous(), scale_of(name): 1 / scales}
    return stored


def _save(tensors: dict[str, Tensor], path: Path) -> None:
    save_file(tensors, path)
    path.chmod(0o644)  # safetensors leaves it to its owner alone; a server runs as another user


def _read(path: Path, name: str) -> Tensor:
    """Read one tensor by itself: a file that is open keeps in memory all that was read of it."""
    with safe_open(path, "pt") as file:
        tensor: Tensor = file.get_tensor(name)
    return tensor


def _filled(weight: Tensor, stored: Tensor, scale: Tensor | None, name: str) -> list[str]:
    """Copy a stored tensor into a weight, or return the problem with it."""
    if stored.shape != weight.shape:
        return [f"{name} is {list(stored.shape)}, expected {list(weight.shape)}"]
    if (stored.dtype == torch.int8) != (scale is not None):
        return [f"{name} is {stored.dtype} and has {'no' if scale is None else 'a'} scale"]
    if scale is not None:
        if scale.shape != stored.shape[:1]:
            return [f"{scale_of(name)} is {list(scale.shape)}, expected {list(stored.shape[:1])}"]
        stored = stored / scale[:, None]
    # NaN must be found here: rounding to integers would hide it.
    if stored.numel() and not torch.stack(stored.aminmax()).isfinite().all():
        return [f"{name} has a number that is not finite"]
    weight.copy_(stored)
    return []


def _tied(config: ModelConfig) -> dict[str, str]:
    """Weights that are stored once, under another's name."""
    return {"projection.weight": "embedding.weight"} if config.tied_projection else {}
