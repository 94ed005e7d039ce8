"""A pack: a directory with everything that a run learns from, filtered, tokenised and numbered once.

    pack.json         what it was made of, and the SHA-256 of the other files and of itself
    tokenizer.model   or the files of an imported model's tokenizer
    names.txt         words that `copied_words` may replace
    train.ids.npy     uint16, all pairs one after another: the source, then the target, each with its end of sentence
    train.lengths.npy uint16 [pairs, 2], tokens of source and target
    validation.ids.npy, validation.lengths.npy

It holds no time and no path but those that the experiment names: equal corpora and settings make equal packs, and a
pack trains on any machine.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from model.checkpoint_config import Direction, load_tokenizer, sha256_of
from model.tokenizer import Prompt, Tokenizer
from model.training.config import TrainConfig

PACK_FILE: Final = "pack.json"
NAMES_FILE: Final = "names.txt"
PACK_FILES: Final = {NAMES_FILE, "train.ids.npy", "train.lengths.npy", "validation.ids.npy", "validation.lengths.npy"}


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
    prompt: Prompt | None = Field(default=None, description="of an imported model")
    own_sha256: str = Field(default="", description="hash of all other fields")

    def digest(self) -> str:
        """Return a hash of all fields but `own_sha256`."""
        fields = self.model_dump(mode="json", exclude={"own_sha256"} | ({"prompt"} if self.prompt is None else set()))
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class PackedPairs:
    """Tokenised pairs in flat arrays; pair i is the tokens from `offsets[2 i]` to `offsets[2 i + 2]`."""

    ids: NDArray[np.uint16]
    lengths: NDArray[np.uint16]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.lengths)

    def pair(self, index: int) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
        """Source and target ids of a pair."""
        start, middle, end = self.offsets[2 * index : 2 * index + 3]
        return self.ids[start:middle], self.ids[middle:end]


class Pack(NamedTuple):
    """An opened pack; the arrays stay on disk until they are read."""

    info: PackInfo
    tokenizer: Tokenizer
    names: frozenset[str]
    train: PackedPairs
    validation: PackedPairs


def load_pack(directory: Path) -> Pack:
    """Open a pack; raises `PackError` for a file that is missing, cut off or changed."""
    path = directory / PACK_FILE
    advice = f"delete {directory} and prepare the pack again"
    try:
        info = PackInfo.model_validate_json(path.read_bytes())
        if info.own_sha256 != info.digest():
            raise PackError(f"{path} was changed; {advice}")
        for name, digest in info.sha256.items():
            path = directory / name
            if sha256_of(path) != digest:
                raise PackError(f"{path} is cut off or was changed; {advice}")
    except OSError as error:
        raise PackError(f"{path}: {error.strerror}; {advice}") from None
    except ValidationError as error:
        problem = error.errors()[0]
        field = "".join(f"{name}: " for name in problem["loc"][:1])
        raise PackError(f"{path}: {field}{problem['msg']}; {advice}") from None
    tokenizer = Tokenizer.from_directory(directory, info.prompt)
    names = frozenset((directory / NAMES_FILE).read_text(encoding="utf-8").split())
    return Pack(info, tokenizer, names, _open("train", directory), _open("validation", directory))


def check_pack(pack: Pack, config: TrainConfig) -> None:
    """Refuse a pack that an experiment cannot train from by a `PackError` that names the field."""
    advice = "prepare a pack with this experiment"
    pieces = len(pack.tokenizer)
    if pieces != config.model.vocab_size and config.start_from is None:
        raise PackError(f"model.vocab_size: {config.model.vocab_size}, but the pack has {pieces} pieces; {advice}")
    theirs, ours = {part.direction for part in pack.info.train}, set(config.directions())
    if theirs != ours:
        names = [", ".join(sorted(map(str, directions))) for directions in (ours, theirs)]
        raise PackError(f"data.train: the experiment is for {names[0]}, the pack for {names[1]}; {advice}")
    if config.start_from is not None and load_tokenizer(config.start_from).files != pack.tokenizer.files:
        raise PackError(f"start_from: {config.start_from} has another tokenizer than the pack; {advice}")


def _open(name: str, directory: Path) -> PackedPairs:
    ids = np.load(directory / f"{name}.ids.npy", mmap_mode="r")
    lengths = np.load(directory / f"{name}.lengths.npy")
    offsets = np.concatenate([[0], np.cumsum(lengths.reshape(-1), dtype=np.int64)])
    return PackedPairs(ids, lengths, offsets)
