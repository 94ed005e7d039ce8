"""Pairs to batches of ids: tokenise once into memory-mapped arrays, batch.

Everything is a function of the config and its seed, so that a resumed run sees the same batches.
"""

import hashlib
import io
import logging
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sentencepiece
import torch
from numpy.typing import NDArray
from rich.progress import track
from torch import Tensor

from model.manifest import Direction, load_tokenizer
from model.tokenizer import Tokenizer, language_tag
from model.training.augment import augment
from model.training.config import Corpus, TrainConfig
from model.training.corpora import Pair, load_corpus

logger = logging.getLogger(__name__)


class Part(NamedTuple):
    """Pairs of one direction, each to be seen `repeat` times an epoch."""

    pairs: list[Pair]
    direction: Direction
    repeat: int


def load_parts(corpora: list[Corpus], config: TrainConfig, directory: Path) -> list[Part]:
    """The pairs of each corpus, in both directions where it says so; logs what the filters dropped."""
    parts = []
    for corpus in track(corpora, description="reading corpora", disable=not os.isatty(2)):
        pairs, dropped = load_corpus(corpus, config, directory)
        logger.info("%s: %d pairs %s", corpus.path.name, len(pairs), dict(dropped.most_common()) or "")
        source, target = config.languages(corpus)
        parts.append(Part(pairs, Direction(source=source, target=target), corpus.repeat))
        if corpus.both_directions:
            turned = [Pair(pair.target, pair.source) for pair in pairs]
            parts.append(Part(turned, Direction(source=target, target=source), corpus.repeat))
    return parts


def changed_copies(parts: list[Part], config: TrainConfig) -> list[Part]:
    """What `[data.augment]` adds, anew for each time that a pair is repeated."""
    return [
        Part(augment(part.pairs, config.data.augment, part.direction, config.seed + turn), part.direction, 1)
        for part in parts
        for turn in range(part.repeat)
    ]


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
        # The one of its errors that data can cause: too little text for so many pieces.
        raise ValueError(f"tokenizer.vocab_size: {error}") from None
    return Tokenizer(written.getvalue())


@dataclass(frozen=True)
class PackedPairs:
    """Tokenised pairs in flat arrays; pair i is `ids[offsets[2i]:offsets[2i+1]]` and the run after it."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    repeats: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.repeats)

    def lengths(self) -> NDArray[np.int64]:
        """`[pairs, 2]`: source and target lengths, eos included."""
        return np.diff(self.offsets).reshape(-1, 2)

    def batch(self, indices: NDArray[np.int64], pad_id: int) -> tuple[Tensor, Tensor]:
        """Source and target ids of some pairs, each `[batch, longest]`, padded on the right."""
        return self._pad(2 * indices, pad_id), self._pad(2 * indices + 1, pad_id)

    def _pad(self, runs: NDArray[np.int64], pad_id: int) -> Tensor:
        rows = [torch.from_numpy(self.ids[self.offsets[r] : self.offsets[r + 1]].astype(np.int64)) for r in runs]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad_id)


def pack(parts: list[Part], tokenizer: Tokenizer, max_length: int, path: Path) -> PackedPairs:
    """Tokenise into `path/*.npy` (memory-mapped on load); pairs over `max_length` tokens are dropped."""
    ids: list[NDArray[np.int32]] = []
    repeats: list[int] = []
    for part in track(parts, description="tokenising", disable=not os.isatty(2)):
        sources = tokenizer.encode_batch([pair.source for pair in part.pairs], part.direction.target)
        targets = tokenizer.encode_batch([pair.target for pair in part.pairs])
        for source, target in zip(sources, targets, strict=True):
            if max(len(source), len(target)) <= max_length:
                ids += (np.asarray(source, dtype=np.int32), np.asarray(target, dtype=np.int32))
                repeats.append(part.repeat)
    if not repeats:
        raise ValueError(f"no pairs are left for {path.name}: see the filters, and max_positions")
    path.mkdir(parents=True, exist_ok=True)
    np.save(path / "ids.npy", np.concatenate(ids))
    np.save(path / "offsets.npy", np.cumsum([0, *map(len, ids)], dtype=np.int64))
    np.save(path / "repeats.npy", np.asarray(repeats, dtype=np.int32))
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
    relevant = {"data", "tokenizer", "seed", "start_from", "source_language", "target_language"}
    key = config.model_dump_json(include=relevant) + str(config.model.max_positions)
    folder = cache / hashlib.sha256(key.encode()).hexdigest()[:16]
    done = folder / "tokenizer.model"
    if done.exists():
        return Prepared(Tokenizer.from_file(done), load_packed(folder / "train"), load_packed(folder / "validation"))
    parts = load_parts(config.data.train, config, data_directory)
    validation = load_parts(config.data.validation, config, data_directory)
    if config.start_from is not None:
        tokenizer = load_tokenizer(config.start_from)
    else:
        sentences = [side for part in parts for pair in part.pairs for side in pair]
        targets = {direction.target for direction in config.directions()}
        tokenizer = train_tokenizer(sentences, config.tokenizer.vocab_size, config.seed, targets)
    longest = config.model.max_positions
    packed = pack(parts + changed_copies(parts, config), tokenizer, longest, folder / "train")
    packed_validation = pack(validation, tokenizer, longest, folder / "validation")
    # Written last: its presence says that the folder is complete.
    done.write_bytes(tokenizer.model)
    return Prepared(tokenizer, packed, packed_validation)


def epoch_batches(pairs: PackedPairs, batch_tokens: int, seed: int, epoch: int) -> list[NDArray[np.int64]]:
    """Indices of an epoch's batches, each of at most `batch_tokens` source plus target tokens with padding.

    Pairs are sorted by length inside large random chunks, so that batches waste little on padding and
    differ from epoch to epoch; then the batches are shuffled.
    """
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(np.repeat(np.arange(len(pairs)), pairs.repeats))
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
    start, widest = 0, np.zeros(2, dtype=np.int64)
    for end, index in enumerate(indices):
        wider = np.maximum(widest, lengths[index])
        if end > start and int(wider.sum()) * (end - start + 1) > batch_tokens:
            yield indices[start:end]
            start, wider = end, lengths[index]
        widest = wider
    if start < len(indices):
        yield indices[start:]
