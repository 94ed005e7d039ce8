"""The files of a run: first weights, and the state that a resume reads. Knows nothing of steps."""

from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from model.checkpoint import load_model
from model.checkpoint_config import CheckpointError, load_config
from model.training.config import TrainConfig
from model.transformer import Transformer


class TrainingError(RuntimeError):
    """Training cannot go on; the last good checkpoint is kept."""


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Write the whole file or nothing. Raises `TrainingError` when the disk is full or not writable."""
    partial = path.with_suffix(".partial")
    try:
        torch.save(state, partial)
    except (OSError, RuntimeError) as error:
        partial.unlink(missing_ok=True)
        problem = str(error).partition("\n")[0]
        raise TrainingError(f"{path} cannot be written: {problem}; free some space, and run it again") from None
    partial.replace(path)


def read_state(path: Path, fixed: dict[str, str]) -> dict[str, Any]:
    """Return what `write_state` wrote.

    Raises `TrainingError` when the file is broken, or when a value of its `fixed` differs: then the state belongs to
    another experiment.
    """
    try:
        state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
        theirs = state["fixed"]
    except (RuntimeError, EOFError, UnpicklingError, KeyError):
        # The text of these errors is a page of advice on torch.load.
        problem = "it is damaged, or of another version"
        raise TrainingError(f"{path} cannot be read: {problem}; delete it to begin anew") from None
    differing = [name for name in fixed if fixed[name] != theirs.get(name)]
    if differing:
        raise TrainingError(f"{path} is of another experiment: {', '.join(differing)} differ; use another output")
    return state


def check_start(config: TrainConfig) -> None:
    """Refuse a `start_from` that is not a checkpoint, or has another shape, by a `TrainingError`."""
    if config.start_from is None:
        return
    try:
        start = load_config(config.start_from).model
    except CheckpointError as error:
        raise TrainingError(f"start_from: {error}") from None
    dropout = {"dropout", "attention_dropout"}
    theirs, ours = (model.model_dump(exclude=dropout) for model in (start, config.model))
    differing = [name for name in ours if ours[name] != theirs[name]]
    if differing:
        values = ", ".join(f"{name} {theirs[name]} where [model] says {ours[name]}" for name in differing)
        raise TrainingError(f"start_from: {config.start_from} has {values}")


def first_model(config: TrainConfig) -> Transformer:
    """Return random weights, or those of `start_from`, which `check_start` has looked at."""
    model = Transformer(config.model)
    if config.start_from is not None:
        model.load_state_dict(load_model(config.start_from).state_dict())
    return model
