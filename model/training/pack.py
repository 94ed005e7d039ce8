"""A pack: a directory with everything that a run learns from, filtered, tokenised and numbered once.

    pack.json         what it was made of, and the SHA-256 of the other files
    tokenizer.model
    names.txt         words that `copied_words` may replace
    train.ids.npy     uint16, all pairs one after another: the source, then the target, each with its end of sentence
    train.lengths.npy uint16 [pairs, 2], tokens of source and target
    validation.ids.npy, validation.lengths.npy

It holds no path and no time: equal corpora and settings make equal packs, and it trains on any machine.
"""

import hashlib
import json
import logging
import os
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError
from rich.progress import track

from model.checkpoint_config import Direction, load_tokenizer, sha256_of
from model.tokenizer import TRAINED_FILE, Tokenizer
from model.training.augment import find_names
from model.training.config import TrainConfig
from model.training.corpora import check_paths, corpus_path
from model.training.data import Part, load_parts, train_tokenizer

logger = logging.getLogger(__name__)

PACK_FILE: Final = "pack.json"
_NAMES_FILE: Final = "names.txt"
_PAIRS_AT_ONCE: Final = 50_000


class PackError(ValueError):
    """A pack cannot be used; says which file and why."""


class PackedPart(BaseModel):
    """Pairs of one corpus and direction; they stand one after another in the arrays."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    direction: Direction
    repeat: float
    pairs: int


class PackInfo(BaseModel):
    """The content of `pack.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    made_of: dict[str, Any]
    train: tuple[PackedPart, ...]
    validation: tuple[PackedPart, ...]
    sha256: dict[str, str]


@dataclass(frozen=True)
class PackedPairs:
    """Tokenised pairs in flat arrays; pair i is the tokens from `offsets[2 i]` to `offsets[2 i + 2]`."""

    ids: NDArray[np.uint16]
    lengths: NDArray[np.uint16]
    offsets: NDArray[np.int64]
    parts: tuple[PackedPart, ...]

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.lengths)

    def pair(self, index: int) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
        """Source and target ids of a pair."""
        start, middle, end = self.offsets[2 * index : 2 * index + 3]
        return self.ids[start:middle], self.ids[middle:end]

    def per_pair(self, values: Iterable[float]) -> NDArray[np.float32]:
        """A value of each part, for each of its pairs."""
        counts = [part.pairs for part in self.parts]
        return np.repeat(np.fromiter(values, dtype=np.float32, count=len(counts)), counts)


class Pack(NamedTuple):
    """An opened pack; the arrays stay on disk until they are read."""

    info: PackInfo
    tokenizer: Tokenizer
    names: frozenset[str]
    train: PackedPairs
    validation: PackedPairs

    def digest(self) -> str:
        """A hash of the content, the same for equal packs."""
        return hashlib.sha256(json.dumps(self.info.sha256, sort_keys=True).encode()).hexdigest()


def prepare(config: TrainConfig, data: Path, output: Path) -> Pack:
    """Make a pack, or open the one in `output` if it is made of the same; shows progress on a terminal.

    Raises `ValueError` for a corpus that is not there, is broken, or leaves nothing to train on, and `PackError` where
    `output` holds another pack. The directory is complete or it is not there.
    """
    check_paths(config, data)
    _check_validation(config)
    made_of = _made_of(config, data)
    if (output / PACK_FILE).exists():
        pack = load_pack(output)
        if pack.info.made_of != made_of:
            raise PackError(f"{output} holds a pack of other corpora or settings; use another directory")
        return pack
    # First, so that a sample of a training corpus can be what is validated on: training then leaves it out.
    validation = load_parts(config.data.validation, config, data)
    parts = load_parts(config.data.train, config, data, validated=validation)
    if not any(part.pairs for part in parts):
        raise ValueError("no pairs are left to train on: see the counts of the filters in the log")
    tokenizer = _tokenizer(config, parts)
    partial = output.with_name(f"{output.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    longest = config.optimiser.row_tokens
    packed = _write("train", parts, tokenizer, longest, partial)
    packed_validation = _write("validation", validation, tokenizer, longest, partial)
    names = find_names(pair for part in parts for pair in part.pairs)
    (partial / _NAMES_FILE).write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")
    (partial / TRAINED_FILE).write_bytes(tokenizer.files[TRAINED_FILE])
    sums = {path.name: sha256_of(path) for path in sorted(partial.iterdir()) if path.name != PACK_FILE}
    info = PackInfo(made_of=made_of, train=packed, validation=packed_validation, sha256=sums)
    (partial / PACK_FILE).write_text(info.model_dump_json(indent=2) + "\n", encoding="utf-8")
    partial.rename(output)
    return load_pack(output)


def load_pack(directory: Path) -> Pack:
    """Open a pack; raises `PackError` for a file that is missing, cut off or changed."""
    path = directory / PACK_FILE
    try:
        info = PackInfo.model_validate_json(path.read_bytes())
    except OSError as error:
        raise PackError(f"{path}: {error.strerror}") from None
    except ValidationError as error:
        raise PackError(f"{path}: {error.errors()[0]['msg']}; prepare the pack again") from None
    for name, digest in info.sha256.items():
        try:
            is_whole = sha256_of(directory / name) == digest
        except OSError as error:
            raise PackError(f"{directory / name}: {error.strerror}; prepare the pack again") from None
        if not is_whole:
            raise PackError(f"{directory / name} is cut off or was changed; prepare the pack again")
    tokenizer = Tokenizer.from_directory(directory)
    names = frozenset((directory / _NAMES_FILE).read_text(encoding="utf-8").split())
    pairs = [_open(name, parts, directory) for name, parts in (("train", info.train), ("validation", info.validation))]
    return Pack(info, tokenizer, names, pairs[0], pairs[1])


def check_pack(pack: Pack, config: TrainConfig) -> None:
    """Raises `PackError` where an experiment cannot train from a pack, naming the field."""
    if len(pack.tokenizer) != config.model.vocab_size:
        raise PackError(
            f"model.vocab_size: {config.model.vocab_size}, but the pack's tokenizer has {len(pack.tokenizer)} pieces"
        )
    directions = {part.direction for part in pack.info.train}
    if directions != set(config.directions()):
        raise PackError(f"the pack is for {', '.join(sorted(map(str, directions)))}: not the experiment's directions")
    if config.start_from is not None:
        theirs = load_tokenizer(config.start_from).files
        if theirs != pack.tokenizer.files:
            raise PackError(f"start_from: {config.start_from} has another tokenizer than the pack")


def _made_of(config: TrainConfig, directory: Path) -> dict[str, Any]:
    """Everything that the arrays depend on, the corpora by their content."""
    fields = {"data", "tokenizer", "seed", "source_language", "target_language"}
    made_of = config.model_dump(mode="json", include=fields)
    del made_of["data"]["augment"]  # drawn when pairs are read
    made_of["row_tokens"] = config.optimiser.row_tokens
    corpora = config.data.train + config.data.validation
    made_of["sha256"] = {corpus.path.name: sha256_of(corpus_path(corpus, directory)) for corpus in corpora}
    if config.start_from is not None:
        files = load_tokenizer(config.start_from).files
        made_of["tokenizer"] = hashlib.sha256(files[TRAINED_FILE]).hexdigest()
    return made_of


def _check_validation(config: TrainConfig) -> None:
    learned = config.directions()
    for corpus in config.data.validation:
        source, target = config.languages(corpus)
        if Direction(source=source, target=target) not in learned:
            raise ValueError(f"data.validation: {corpus.path} is {source}-{target}, which is not trained")


def _tokenizer(config: TrainConfig, parts: list[Part]) -> Tokenizer:
    if config.start_from is not None:
        return _existing_tokenizer(config.start_from, config)
    # Each pair as often as it is seen, so that a corpus counts as much for the pieces as for the model.
    sentences = [
        side for part in parts for _ in range(max(1, round(part.repeat))) for pair in part.pairs for side in pair
    ]
    targets = {direction.target for direction in config.directions()}
    logger.info("training the tokenizer on %d sentences", len(sentences))
    return train_tokenizer(sentences, config.tokenizer, config.seed, targets)


def _existing_tokenizer(checkpoint: Path, config: TrainConfig) -> Tokenizer:
    tokenizer = load_tokenizer(checkpoint)
    if set(tokenizer.files) != {TRAINED_FILE}:
        raise ValueError(f"start_from: {checkpoint} was not trained here but imported")
    targets = sorted({direction.target for direction in config.directions()})
    untagged = [target for target in targets if not tokenizer.has_tag(target)]
    if len(targets) > 1 and untagged:
        raise ValueError(f"start_from: the tokenizer of {checkpoint} has no tag for {', '.join(untagged)}")
    return tokenizer


def _write(name: str, parts: list[Part], tokenizer: Tokenizer, longest: int, directory: Path) -> tuple[PackedPart, ...]:
    """Tokenise into `directory`; pairs with a side over `longest` tokens are dropped."""
    ids, lengths = array("H"), array("H")
    packed = []
    for part in track(parts, description=f"tokenising {name}", disable=not os.isatty(2)):
        count = 0
        # Some at a time: as Python's numbers they take ten times the room.
        for start in range(0, len(part.pairs), _PAIRS_AT_ONCE):
            chunk = part.pairs[start : start + _PAIRS_AT_ONCE]
            sources = tokenizer.encode_batch([pair.source for pair in chunk], part.direction.target)
            targets = tokenizer.encode_batch([pair.target for pair in chunk])
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


def _open(name: str, parts: tuple[PackedPart, ...], directory: Path) -> PackedPairs:
    ids = np.load(directory / f"{name}.ids.npy", mmap_mode="r")
    lengths = np.load(directory / f"{name}.lengths.npy")
    offsets = np.concatenate([[0], np.cumsum(lengths.reshape(-1), dtype=np.int64)])
    return PackedPairs(ids, lengths, offsets, parts)
