"""Pairs to batches of ids: tokenise once into memory-mapped arrays, batch.

Everything is a function of the config and its seed, so that a resumed run sees the same batches.
"""

import hashlib
import io
import logging
import math
import os
from array import array
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import sentencepiece
import torch
from numpy.typing import NDArray
from rich.progress import track
from torch import Tensor

from model.checkpoint_config import Direction, load_tokenizer
from model.tokenizer import TRAINED_FILE, Tokenizer, language_tag
from model.training.augment import augment
from model.training.config import Corpus, TrainConfig
from model.training.corpora import Pair, check_paths, corpus_path, load_corpus, validation_marks

logger = logging.getLogger(__name__)

_PAIRS_AT_ONCE: Final = 50_000


class Part(NamedTuple):
    """Pairs of one direction, each to be seen `repeat` times an epoch."""

    pairs: list[Pair]
    direction: Direction
    repeat: float


def load_parts(
    corpora: list[Corpus], config: TrainConfig, directory: Path, validated: Collection[Part] = ()
) -> list[Part]:
    """The pairs of each corpus, in both directions where it says so, without those that are in or close to `validated`.

    Logs what the filters dropped.
    """
    parts = []
    seen: set[int] = set()
    marks = {
        mark for part in validated for pair in part.pairs for mark in validation_marks(pair, part.direction.codes())
    }
    for corpus in track(corpora, description="reading corpora", disable=not os.isatty(2)):
        pairs, dropped = load_corpus(corpus, config, directory, seen, marks)
        logger.info("%s: %d pairs %s", corpus.path.name, len(pairs), dict(dropped.most_common()) or "")
        source, target = config.languages(corpus)
        parts.append(Part(pairs, Direction(source=source, target=target), corpus.repeat))
        if corpus.both_directions:
            turned = [Pair(pair.target, pair.source) for pair in pairs]
            parts.append(Part(turned, Direction(source=target, target=source), corpus.repeat))
    return parts


def changed_copies(parts: list[Part], config: TrainConfig) -> Iterator[Part]:
    """What `[data.augment]` adds, anew for each time that a pair is repeated."""
    for part in parts:
        for turn in range(math.ceil(part.repeat)):
            copies = augment(part.pairs, config.data.augment, part.direction, config.seed + turn)
            yield Part(copies, part.direction, min(1.0, part.repeat - turn))


def train_tokenizer(
    sentences: list[str], vocab_size: int, seed: int, target_languages: Collection[str] = (), sample: int = 400_000
) -> Tokenizer:
    """A SentencePiece unigram model for all languages; bytes stand in for rare characters.

    With several target languages it has a tag for each. Raises `ValueError` where the text is too little for the size.
    """
    if len(sentences) > sample:
        order = np.random.default_rng(seed).permutation(len(sentences))[:sample]
        sentences = [sentences[i] for i in order]
    tags = [language_tag(language) for language in sorted(target_languages)]
    written = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=written,
            vocab_size=vocab_size,
            control_symbols=tags if len(tags) > 1 else [],
            model_type="unigram",
            byte_fallback=True,
            character_coverage=0.9998,
            pad_id=0,
            bos_id=1,
            eos_id=2,
            unk_id=3,
            minloglevel=1,
        )
    except RuntimeError as error:
        # The one of its errors that data can cause: too little text for so many pieces. Before it, its place in C++.
        raise ValueError(f"tokenizer.vocab_size: {str(error).rpartition('] ')[2]}") from None
    return Tokenizer.from_sentencepiece(written.getvalue())


@dataclass(frozen=True)
class PackedPairs:
    """Tokenised pairs in flat arrays; pair i is `ids[offsets[2i]:offsets[2i+1]]` and the run after it."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    repeats: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.repeats)

    def digest(self) -> str:
        """Of everything in it: other text, or another tokenizer, gives another one."""
        content = hashlib.sha256()
        for part in (self.ids, self.offsets, self.repeats):
            content.update(np.ascontiguousarray(part).data)
        return content.hexdigest()

    def lengths(self) -> NDArray[np.int64]:
        """`[pairs, 2]`: source and target lengths, eos included."""
        return np.diff(self.offsets).reshape(-1, 2)

    def batch(self, indices: NDArray[np.int64], pad_id: int) -> tuple[Tensor, Tensor]:
        """Source and target ids of some pairs, each `[batch, longest]`, padded on the right."""
        return self._pad(2 * indices, pad_id), self._pad(2 * indices + 1, pad_id)

    def _pad(self, runs: NDArray[np.int64], pad_id: int) -> Tensor:
        rows = [torch.from_numpy(self.ids[self.offsets[r] : self.offsets[r + 1]].astype(np.int64)) for r in runs]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad_id)


def pack(parts: Iterable[Part], tokenizer: Tokenizer, max_length: int, path: Path) -> PackedPairs:
    """Tokenise into `path/*.npy` (memory-mapped on load); pairs over `max_length` tokens are dropped."""
    ids, lengths, repeats = array("i"), array("q"), array("f")
    for part in track(parts, description="tokenising", disable=not os.isatty(2)):
        # Some at a time: as Python's numbers they take ten times the room.
        for start in range(0, len(part.pairs), _PAIRS_AT_ONCE):
            chunk = part.pairs[start : start + _PAIRS_AT_ONCE]
            sources = tokenizer.encode_batch([pair.source for pair in chunk], part.direction.target)
            targets = tokenizer.encode_batch([pair.target for pair in chunk])
            for source, target in zip(sources, targets, strict=True):
                if max(len(source), len(target)) <= max_length:
                    ids.extend(source)
                    ids.extend(target)
                    lengths.extend((len(source), len(target)))
                    repeats.append(part.repeat)
    if not repeats:
        raise ValueError(f"no pairs are left for {path.name}: see the filters, and max_positions")
    path.mkdir(parents=True, exist_ok=True)
    np.save(path / "ids.npy", np.frombuffer(ids, dtype=np.int32))
    np.save(path / "offsets.npy", np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))
    np.save(path / "repeats.npy", np.frombuffer(repeats, dtype=np.float32))
    return load_packed(path)


def load_packed(path: Path) -> PackedPairs:
    """Open what `pack` wrote without reading it into memory."""
    return PackedPairs(*(np.load(path / f"{name}.npy", mmap_mode="r") for name in ("ids", "offsets", "repeats")))


class Prepared(NamedTuple):
    """What a run trains with."""

    tokenizer: Tokenizer
    train: PackedPairs
    validation: PackedPairs


def prepare(config: TrainConfig, data_directory: Path, cache: Path) -> Prepared:
    """Tokenizer, training pairs and validation pairs; made once per data config, then read from `cache`."""
    _check_validation(config)
    check_paths(config, data_directory)
    folder = cache / _key(config, data_directory)
    done = folder / TRAINED_FILE
    if done.exists():
        return Prepared(
            Tokenizer.from_directory(folder), load_packed(folder / "train"), load_packed(folder / "validation")
        )
    # First, so that a sample of a training corpus can be what is validated on: training then leaves it out.
    validation = load_parts(config.data.validation, config, data_directory)
    parts = load_parts(config.data.train, config, data_directory, validated=validation)
    if not any(part.pairs for part in parts):
        raise ValueError("no pairs are left to train on: see the counts of the filters in the log")
    if config.start_from is not None:
        tokenizer = _existing_tokenizer(config.start_from, config)
    else:
        sentences = [side for part in parts for pair in part.pairs for side in pair]
        targets = {direction.target for direction in config.directions()}
        tokenizer = train_tokenizer(sentences, config.tokenizer.vocab_size, config.seed, targets)
    longest = config.model.max_positions
    packed = pack(chain(parts, changed_copies(parts, config)), tokenizer, longest, folder / "train")
    packed_validation = pack(validation, tokenizer, longest, folder / "validation")
    # Written last: its presence says that the folder is complete.
    done.write_bytes(tokenizer.files[done.name])
    return Prepared(tokenizer, packed, packed_validation)


def _key(config: TrainConfig, directory: Path) -> str:
    """Of everything that the arrays depend on; of the corpora by their size and time."""
    relevant = {"data", "tokenizer", "seed", "source_language", "target_language"}
    parts = [config.model_dump_json(include=relevant), str(config.model.max_positions)]
    for corpus in config.data.train + config.data.validation:
        status = corpus_path(corpus, directory).stat()
        parts.append(f"{status.st_size} {status.st_mtime_ns}")
    content = "\n".join(parts).encode()
    if config.start_from is not None:
        content += load_tokenizer(config.start_from).files[TRAINED_FILE]
    return hashlib.sha256(content).hexdigest()[:16]


def _check_validation(config: TrainConfig) -> None:
    learned = config.directions()
    for corpus in config.data.validation:
        source, target = config.languages(corpus)
        if Direction(source=source, target=target) not in learned:
            raise ValueError(f"data.validation: {corpus.path} is {source}-{target}, which is not trained")


def _existing_tokenizer(checkpoint: Path, config: TrainConfig) -> Tokenizer:
    tokenizer = load_tokenizer(checkpoint)
    if set(tokenizer.files) != {TRAINED_FILE}:
        raise ValueError(f"start_from: {checkpoint} was not trained here but imported")
    targets = sorted({direction.target for direction in config.directions()})
    untagged = [target for target in targets if not tokenizer.has_tag(target)]
    if len(targets) > 1 and untagged:
        raise ValueError(f"start_from: the tokenizer of {checkpoint} has no tag for {', '.join(untagged)}")
    return tokenizer


def epoch_batches(pairs: PackedPairs, batch_tokens: int, seed: int, epoch: int) -> list[NDArray[np.int64]]:
    """Indices of an epoch's batches, each of at most `batch_tokens` source plus target tokens with padding.

    Pairs are sorted by length inside large random chunks, so that batches waste little on padding and
    differ from epoch to epoch; then the batches are shuffled.
    """
    random = np.random.default_rng([seed, epoch])
    # A repeat of 1.5 is once, and in half of the epochs, which ones is up to chance, once more.
    times = np.floor(pairs.repeats + random.random(len(pairs), dtype=np.float32)).astype(np.int64)
    order = random.permutation(np.repeat(np.arange(len(pairs)), times))
    lengths = pairs.lengths()
    chunk = max(1, 100 * batch_tokens // 32)
    batches: list[NDArray[np.int64]] = []
    for start in range(0, len(order), chunk):
        part = order[start : start + chunk]
        part = part[np.lexsort((lengths[part, 0], lengths[part, 1]))]
        batches += _split_by_tokens(part, lengths, batch_tokens)
    return [batches[i] for i in random.permutation(len(batches))]


def _split_by_tokens(
    indices: NDArray[np.int64], lengths: NDArray[np.int64], batch_tokens: int
) -> Iterator[NDArray[np.int64]]:
    start, source, target = 0, 0, 0
    for end, (source_length, target_length) in enumerate(lengths[indices].tolist()):
        wider = max(source, source_length), max(target, target_length)
        if end > start and sum(wider) * (end - start + 1) > batch_tokens:
            yield indices[start:end]
            start, wider = end, (source_length, target_length)
        source, target = wider
    if start < len(indices):
        yield indices[start:]
