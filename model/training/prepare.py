"""Corpora to a pack (model/training/pack.py): filtered, deduplicated, tokenised, and written whole or not at all."""

import hashlib
import logging
import os
import shutil
from array import array
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.progress import track

from model.checkpoint_config import Direction, load_tokenizer, sha256_of
from model.tokenizer import Prompt, Tokenizer
from model.training.augment import find_names
from model.training.config import TrainConfig
from model.training.corpora import check_paths, corpus_path
from model.training.data import Part, load_parts, train_tokenizer
from model.training.pack import NAMES_FILE, PACK_FILE, PACK_FILES, Pack, PackedPart, PackError, PackInfo, load_pack

logger = logging.getLogger(__name__)

_PAIRS_AT_ONCE: Final = 50_000


def prepare(config: TrainConfig, data: Path, output: Path) -> Pack:
    """Make a pack, or open the one in `output` if it is made of the same; shows progress on a terminal.

    Raises `ValueError` for a corpus that is not there, is broken, or leaves nothing to train on, and `PackError` where
    `output` holds anything else or the disk is full. The directory is complete or it is not there.
    """
    check_paths(config, data)
    _check_validation(config)
    made_of = _made_of(config, data)
    if (output / PACK_FILE).exists():
        pack = load_pack(output)
        if pack.info.made_of != made_of:
            raise PackError(f"{output} holds a pack of other corpora or settings; use another directory")
        return pack
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise PackError(f"{output} exists and is not a pack; use another directory")
    # First, so that a sample of a training corpus can be what is validated on: training then leaves it out.
    validation = load_parts(config.data.validation, config, data)
    train = load_parts(config.data.train, config, data, validated=validation)
    if not any(part.pairs for part in train):
        raise ValueError("no pairs are left to train on: see the counts of the filters in the log")
    tokenizer = _tokenizer(config, train)
    partial = output.with_name(f"{output.name}.partial")
    try:
        _write(partial, made_of, {"train": train, "validation": validation}, tokenizer, config.optimiser.row_tokens)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise PackError(f"{partial} cannot be written: {error}; free some space, and run it again") from None
    except Exception:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    partial.rename(output)
    return load_pack(output)


def _made_of(config: TrainConfig, directory: Path) -> dict[str, Any]:
    """Everything that the arrays depend on, the corpora by their content."""
    fields = {"data", "tokenizer", "seed", "source_language", "target_language"}
    made_of = config.model_dump(mode="json", include=fields)
    del made_of["data"]["augment"]  # drawn when pairs are read
    made_of["row_tokens"] = config.optimiser.row_tokens
    corpora = config.data.train + config.data.validation
    made_of["sha256"] = {corpus.path.as_posix(): sha256_of(corpus_path(corpus, directory)) for corpus in corpora}
    if config.start_from is not None:
        files = load_tokenizer(config.start_from).files
        made_of["tokenizer"] = hashlib.sha256(b"".join(files.values())).hexdigest()
    return made_of


def _check_validation(config: TrainConfig) -> None:
    learned = config.directions()
    for corpus in config.data.validation:
        source, target = config.languages(corpus)
        if Direction(source=source, target=target) not in learned:
            raise ValueError(f"data.validation: {corpus.path} is {source}-{target}, which is not trained")


def _tokenizer(config: TrainConfig, parts: list[Part]) -> Tokenizer:
    targets = sorted({direction.target for direction in config.directions()})
    if config.start_from is not None:
        tokenizer = load_tokenizer(config.start_from)
        untagged = [target for target in targets if not tokenizer.has_tag(target)]
        if len(targets) > 1 and untagged:
            raise ValueError(f"start_from: the tokenizer of {config.start_from} has no tag for {', '.join(untagged)}")
        return tokenizer
    # Each pair as often as it is seen, so that a corpus counts as much for the pieces as for the model.
    sentences = [
        side for part in parts for _ in range(max(1, round(part.repeat))) for pair in part.pairs for side in pair
    ]
    logger.info("training the tokenizer on %d sentences", len(sentences))
    return train_tokenizer(sentences, config.tokenizer, config.seed, targets)


def _write(
    directory: Path, made_of: dict[str, Any], parts: dict[str, list[Part]], tokenizer: Tokenizer, longest: int
) -> None:
    """Write the files of a pack, `pack.json` last; `parts` are those of its two arrays."""
    shutil.rmtree(directory, ignore_errors=True)  # of a call that was interrupted
    directory.mkdir(parents=True)
    packed = {name: _write_pairs(name, each, tokenizer, longest, directory) for name, each in parts.items()}
    names = find_names(pair for part in parts["train"] for pair in part.pairs)
    (directory / NAMES_FILE).write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")
    for name, data in tokenizer.files.items():
        (directory / name).write_bytes(data)
    sums = {name: sha256_of(directory / name) for name in sorted(PACK_FILES | tokenizer.files.keys())}
    prompt = None if tokenizer.prompt == Prompt() else tokenizer.prompt
    train, validation = packed["train"], packed["validation"]
    info = PackInfo(made_of=made_of, train=train, validation=validation, sha256=sums, prompt=prompt)
    info = info.model_copy(update={"own_sha256": info.digest()})
    (directory / PACK_FILE).write_text(info.model_dump_json(indent=2) + "\n", encoding="utf-8")


def _write_pairs(
    name: str, parts: list[Part], tokenizer: Tokenizer, longest: int, directory: Path
) -> tuple[PackedPart, ...]:
    """Tokenise into `directory`; pairs with a side over `longest` tokens are dropped."""
    ids, lengths = array("H"), array("H")
    packed = []
    for part in track(parts, description=f"tokenising {name}", disable=not os.isatty(2)):
        count = 0
        # Some at a time: as Python's numbers they take ten times the room.
        for start in range(0, len(part.pairs), _PAIRS_AT_ONCE):
            chunk = part.pairs[start : start + _PAIRS_AT_ONCE]
            languages = part.direction.target, part.direction.source
            sources = tokenizer.encode_batch([pair.source for pair in chunk], *languages)
            targets = tokenizer.encode_targets([pair.target for pair in chunk], *languages)
            for source, target in zip(sources, targets, strict=True):
                if max(len(source), len(target)) <= longest:
                    ids.extend(source)
                    ids.extend(target)
                    lengths.extend((len(source), len(target)))
                    count += 1
        packed.append(PackedPart(name=part.name, direction=part.direction, repeat=part.repeat, pairs=count))
    if not lengths:
        raise ValueError(f"no pairs are left for {name}: see the filters, and optimiser.row_tokens")
    np.save(directory / f"{name}.ids.npy", np.frombuffer(ids, dtype=np.uint16))
    np.save(directory / f"{name}.lengths.npy", np.frombuffer(lengths, dtype=np.uint16).reshape(-1, 2))
    return tuple(packed)
