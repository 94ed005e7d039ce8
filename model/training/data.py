"""Parallel text to batches of ids: read, filter, tokenise once into memory-mapped arrays, batch.

Everything is a function of the config and its seed, so that a resumed run sees the same batches.
"""

import hashlib
import io
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import sentencepiece
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.manifest import load_tokenizer
from model.tokenizer import Tokenizer
from model.training.config import Corpus, DataConfig, TrainConfig


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class CorpusError(ValueError):
    """A line of a corpus is not what it should be; names the file and the line."""


def read_pairs(path: Path) -> Iterator[Pair]:
    """The pairs of a TSV file; raises `CorpusError` on a line without exactly two non-empty columns."""
    with _open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            columns = line.rstrip("\n").split("\t")
            if len(columns) != 2 or not all(column.strip() for column in columns):
                raise CorpusError(f"{path.name}:{number}: expected two non-empty tab-separated columns")
            yield Pair(columns[0].strip(), columns[1].strip())


def _open_text(path: Path) -> IO[str]:
    # newline="\n": a stray carriage return or U+2028 inside a sentence is not a line end.
    if path.suffix == ".xz":
        return lzma.open(path, "rt", encoding="utf-8", newline="\n")
    return path.open(encoding="utf-8", newline="\n")


def keep(pair: Pair, corpus: Corpus, max_length_ratio: float) -> bool:
    """Whether a pair is worth training on: short enough, balanced, and not an untranslated copy."""
    source_words, target_words = len(pair.source.split()), len(pair.target.split())
    longer, shorter = max(source_words, target_words), min(source_words, target_words)
    if longer > corpus.max_words:
        return False
    # One word may well be three in the other language, so very short pairs are not judged by ratio.
    if longer > 4 and longer > max_length_ratio * shorter:
        return False
    is_copy = pair.source == pair.target and longer > 2
    return not is_copy


def load_corpus(corpus: Corpus, data: DataConfig, directory: Path, seed: int) -> list[Pair]:
    """Read, filter, deduplicate and sample one corpus; deterministic."""
    # In the data directory, or, like the small corpora that come with the trainer, where the path itself says.
    path = directory / corpus.path
    if not path.exists() and corpus.path.exists():
        path = corpus.path
    pairs = (pair for pair in read_pairs(path) if keep(pair, corpus, data.max_length_ratio))
    unique = list(dict.fromkeys(pairs))
    if corpus.max_pairs is not None and len(unique) > corpus.max_pairs:
        order = np.random.default_rng([seed, len(unique)]).permutation(len(unique))[: corpus.max_pairs]
        unique = [unique[i] for i in sorted(order)]
    return unique


def train_tokenizer(pairs: list[Pair], vocab_size: int, seed: int, sample: int = 400_000) -> Tokenizer:
    """A SentencePiece unigram model over both sides of `pairs`; bytes stand in for rare characters."""
    sentences = [side for pair in pairs for side in pair]
    if len(sentences) > sample:
        order = np.random.default_rng(seed).permutation(len(sentences))[:sample]
        sentences = [sentences[i] for i in order]
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=written,
        vocab_size=vocab_size,
        model_type="unigram",
        byte_fallback=True,
        character_coverage=0.9998,
        pad_id=0,
        bos_id=1,
        eos_id=2,
        unk_id=3,
        minloglevel=1,
    )
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


def pack(pairs: list[Pair], repeats: list[int], tokenizer: Tokenizer, max_length: int, path: Path) -> PackedPairs:
    """Tokenise into `path/*.npy` (memory-mapped on load); pairs over `max_length` tokens are dropped."""
    sources = tokenizer.encode_batch([pair.source for pair in pairs])
    targets = tokenizer.encode_batch([pair.target for pair in pairs])
    kept = [i for i in range(len(pairs)) if max(len(sources[i]), len(targets[i])) <= max_length]
    runs = [run for i in kept for run in (sources[i], targets[i])]
    path.mkdir(parents=True, exist_ok=True)
    np.save(path / "ids.npy", np.concatenate([np.asarray(run, dtype=np.int32) for run in runs]))
    np.save(path / "offsets.npy", np.cumsum([0, *map(len, runs)], dtype=np.int64))
    np.save(path / "repeats.npy", np.asarray([repeats[i] for i in kept], dtype=np.int32))
    return load_packed(path)


def load_packed(path: Path) -> PackedPairs:
    """Open what `pack` wrote without reading it into memory."""
    return PackedPairs(*(np.load(path / f"{name}.npy", mmap_mode="r") for name in ("ids", "offsets", "repeats")))


def prepare(config: TrainConfig, data_directory: Path, cache: Path) -> tuple[Tokenizer, PackedPairs, PackedPairs]:
    """Tokenizer, training pairs and validation pairs; made once per data config, then read from `cache`."""
    key = config.model_dump_json(include={"data", "tokenizer", "seed", "start_from"}) + str(config.model.max_positions)
    folder = cache / hashlib.sha256(key.encode()).hexdigest()[:16]
    done = folder / "tokenizer.model"
    if done.exists():
        return Tokenizer.from_file(done), load_packed(folder / "train"), load_packed(folder / "validation")
    pairs: list[Pair] = []
    repeats: list[int] = []
    for corpus in config.data.train:
        loaded = load_corpus(corpus, config.data, data_directory, config.seed)
        pairs += loaded
        repeats += [corpus.repeat] * len(loaded)
    validation = load_corpus(config.data.validation, config.data, data_directory, config.seed)
    if config.start_from is not None:
        tokenizer = load_tokenizer(config.start_from)
    else:
        tokenizer = train_tokenizer(pairs, config.tokenizer.vocab_size, config.seed)
    longest = config.model.max_positions
    packed = pack(pairs, repeats, tokenizer, longest, folder / "train")
    packed_validation = pack(validation, [1] * len(validation), tokenizer, longest, folder / "validation")
    # Written last: its presence says that the folder is complete.
    done.write_bytes(tokenizer.model)
    return tokenizer, packed, packed_validation


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
