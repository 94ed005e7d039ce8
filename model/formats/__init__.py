"""Checkpoints of others: recognised, checked, and written as ours. Nothing in them is ever run."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import torch
from pydantic import ValidationError

from model.checkpoint import save_checkpoint, scale_of
from model.checkpoint_config import ANY, CheckpointConfig, CheckpointError, LanguageHint
from model.formats import ctranslate2, huggingface, marian, t5
from model.formats.checked_source import Imported, impossible, read_json
from model.source_files import DEFAULT_MAX_MEGABYTES, MEGABYTE, source_bytes, unpack
from model.transformer import Transformer

_LISTED: Final = 20
"""Languages that an error names."""


def import_checkpoint(
    path: Path, directory: Path, hint: LanguageHint = ANY, max_bytes: int = DEFAULT_MAX_MEGABYTES * MEGABYTE
) -> CheckpointConfig:
    """Write the checkpoint in `path` (a directory, or an Argos package) as one of ours into `directory`.

    Returns what it is. Raises `CheckpointError` for a format that is not known, for anything unsupported, missing,
    left over or broken, and for more than `max_bytes` unpacked; then it leaves nothing in a new `directory`.
    """
    is_new = not directory.exists()
    try:
        return _imported(path, directory, hint, max_bytes)
    except BaseException as error:
        if is_new:
            shutil.rmtree(directory, ignore_errors=True)
        if isinstance(error, CheckpointError):
            raise CheckpointError(" ".join(str(error).split())) from None
        raise


def _imported(path: Path, directory: Path, hint: LanguageHint, max_bytes: int) -> CheckpointConfig:
    with _unpacked(path, directory.parent, max_bytes) as unpacked:
        try:
            imported = _read(unpacked, hint)
            _check_hint(path, imported.config, hint)
            _check_weights(path, imported)
            _check_rows(path, imported)
            imported = _without_nameless(imported)
        except ValidationError as error:
            problems = "; ".join(
                ": ".join(filter(None, (".".join(map(str, each["loc"])), each["msg"]))) for each in error.errors()
            )
            raise CheckpointError(f"{path}: {problems}") from None
        except CheckpointError:
            raise
        except (OSError, RuntimeError, ValueError) as error:  # of a tokenizer's files
            raise CheckpointError(f"{path}: {error}") from None
        except Exception as error:  # these errors mean that the file has not the expected structure
            raise CheckpointError(f"{path}: is not of its format: {type(error).__name__}: {error}") from None
        config, weights, tokenizer, shortlist = imported
        return save_checkpoint(directory, config, weights, tokenizer, None, shortlist)


@contextmanager
def _unpacked(path: Path, beside: Path, max_bytes: int) -> Iterator[Path]:
    """Unpack an Argos package, which is a zip file, where there is room for its content."""
    source_bytes(path, max_bytes)
    if not path.is_file():
        yield path
        return
    beside.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=beside) as directory:
        unpack(path, Path(directory), max_bytes)
        yield Path(directory)


def _read(path: Path, hint: LanguageHint) -> Imported:
    if (model := ctranslate2.find(path)) is not None:
        return ctranslate2.read(model, hint)
    if not (path / "config.json").exists():
        if (model := marian.find(path)) is not None:
            return marian.read(model, hint)
        raise CheckpointError(f"{path}: neither an Argos package, nor a CTranslate2, Hugging Face or Marian directory")
    described = read_json(path / "config.json")
    kind = described.get("model_type")
    if kind in huggingface.MODEL_TYPES:
        return huggingface.read(path, hint)
    if kind in t5.MODEL_TYPES:
        return t5.read(path, hint)
    if kind is None and "model" in described:
        raise CheckpointError(f"{path}: a checkpoint of Dragoman's own already, which `serve --model` takes as it is")
    known = ", ".join(sorted(huggingface.MODEL_TYPES | t5.MODEL_TYPES))
    raise CheckpointError(f"{path / 'config.json'}: model_type is {kind}, known are {known}")


def _without_nameless(imported: Imported) -> Imported:
    """Forbid ids that a model has and its tokenizer has no piece for: they are never generated."""
    model, named = imported.config.model, len(imported.tokenizer)
    if named >= model.vocab_size:
        return imported
    bias = imported.weights.get("projection.bias", torch.zeros(model.vocab_size)).float()
    bias = bias + impossible(model.vocab_size, *range(named, model.vocab_size))
    config = imported.config.model_copy(update={"model": model.model_copy(update={"projection_bias": True})})
    return imported._replace(config=config, weights=imported.weights | {"projection.bias": bias})


def _check_hint(path: Path, config: CheckpointConfig, hint: LanguageHint) -> None:
    directions = config.all_directions()
    for place, (side, code) in enumerate(hint._asdict().items()):
        known = sorted({direction.codes()[place] for direction in directions})
        if code is not None and code not in known:
            more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
            raise CheckpointError(f"{path}: {code} is none of its {side} languages: {', '.join(known[:_LISTED])}{more}")


def _check_rows(path: Path, imported: Imported) -> None:
    """Pieces that nothing is ever given may have none."""
    model = imported.config.model
    rows = (model.source_vocab_size or model.vocab_size, model.vocab_size)
    for side, needed, there in zip(("source", "target"), imported.tokenizer.rows, rows, strict=True):
        if needed > there:
            raise CheckpointError(f"{path}: the tokenizer has the {side} piece {needed - 1}, the model {there} of them")


def _check_weights(path: Path, imported: Imported) -> None:
    with torch.device("meta"):
        expected = {name: each.shape for name, each in Transformer(imported.config.model).state_dict().items()}
    expected |= {scale_of(name): shape[:1] for name, shape in expected.items()}
    problems = [
        f"{name} is {list(tensor.shape)}, expected {list(expected[name])}"
        for name, tensor in imported.weights.items()
        if tensor.shape != expected[name]
    ]
    problems = problems or [
        f"{name} has a number that is not finite"
        for name, each in imported.weights.items()
        if not each.isfinite().all()
    ]
    if problems:
        raise CheckpointError(f"{path}: {'; '.join(sorted(problems))}")
