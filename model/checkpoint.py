"""A checkpoint is a directory: `config.json`, `model.safetensors`, `tokenizer.model`.

Loading is strict: unknown config keys, missing or leftover weights and wrong shapes are all refused,
in one error that lists every problem.
"""

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from model.config import ModelConfig
from model.manifest import CheckpointConfig, CheckpointError, load_config
from model.tokenizer import Tokenizer
from model.transformer import Transformer


def save_checkpoint(
    directory: Path,
    config: CheckpointConfig,
    weights: dict[str, Tensor],
    tokenizer: Tokenizer,
    dtype: torch.dtype | None = torch.float16,
) -> None:
    """Write a checkpoint that `load_model` reads; `weights` are a `Transformer.state_dict()`.

    They are stored as `dtype`, or as they are if it is None.
    """
    directory.mkdir(parents=True, exist_ok=True)
    tied = _tied(config.model)
    stored = {
        name: tensor.to(dtype or tensor.dtype).contiguous() for name, tensor in weights.items() if name not in tied
    }
    path = directory / "model.safetensors"
    save_file(stored, path)
    path.chmod(0o644)  # safetensors leaves it to its owner alone; a server runs as another user
    for name, content in tokenizer.files.items():
        (directory / name).write_bytes(content)
    (directory / "config.json").write_text(config.model_dump_json(indent=2) + "\n", encoding="utf-8")


def load_model(directory: Path, dtype: torch.dtype = torch.float32) -> Transformer:
    """The model in evaluation mode, its weights converted to `dtype`; raises `CheckpointError`."""
    config = load_config(directory)
    path = directory / "model.safetensors"
    try:
        stored = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: {error}") from None
    model = Transformer(config.model)
    tied = _tied(config.model)
    expected = {name: tensor for name, tensor in model.state_dict().items() if name not in tied}
    problems = [f"missing {name}" for name in expected.keys() - stored.keys()]
    problems += [f"unexpected {name}" for name in stored.keys() - expected.keys()]
    problems += [
        f"{name} is {list(stored[name].shape)}, expected {list(tensor.shape)}"
        for name, tensor in expected.items()
        if name in stored and stored[name].shape != tensor.shape
    ]
    # Somewhere behind these it would no longer show: rounding to integers hides what is not a number.
    problems += [f"{name} has a number that is not finite" for name in stored if not stored[name].isfinite().all()]
    if problems:
        raise CheckpointError(f"{path}: {'; '.join(sorted(problems))}")
    model.load_state_dict(stored | {alias: stored[name] for alias, name in tied.items()})
    return model.to(dtype).eval()


def _tied(config: ModelConfig) -> dict[str, str]:
    """Weights that are stored once, under another's name."""
    return {"projection.weight": "embedding.weight"} if config.tied_projection else {}
