"""What both sides are given: pairs, settings, batches and turns. Knows neither side's trainer."""

import itertools
import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np

from loadtest.compare.roster import OURS
from loadtest.compare.workload import LOG_SIGMA, SOURCE_RATIO
from model.config import ModelConfig
from model.training.config import Corpus, DataConfig, OptimiserConfig, TokenizerConfig, TrainConfig
from model.training.data import PackedPairs, epoch_batches, prepare
from model.training.trainer import Batch

Mode = Literal["steps", "epoch"]
Precision = Literal["float32", "bfloat16"]

MODES: Final[tuple[Mode, ...]] = ("steps", "epoch")
THEIRS: Final = "transformers"
SIDES: Final = (OURS, THEIRS)
WARM_UP: Final = 3
"""Steps of a turn that are not counted: first allocations, first batches, the optimiser's state."""
PAIRS: Final = 20_000
"""Many more than a turn's steps take, so that there are alike lengths to batch, as in a long corpus."""
# Reached soon after the warm-up, so that a loss has to fall within a few steps.
OPTIMISER: Final = OptimiserConfig(learning_rate=1e-3, schedule="inverse_sqrt", warmup_steps=WARM_UP)

_MEAN_TOKENS: Final = 20
_SHORTEST: Final = 3
_SEED: Final = 1


@dataclass(frozen=True, slots=True)
class Job:
    """One turn of one side; goes to its process."""

    model: ModelConfig
    pairs: PackedPairs
    mode: Mode
    batch_tokens: int
    steps: int
    precision: Precision = "float32"
    seed: int = _SEED


def turns(rounds: int) -> Iterator[tuple[int, Mode, str]]:
    """Round, mode and side, in the order in which they are taken."""
    for number, mode in itertools.product(range(1, rounds + 1), MODES):
        for side in SIDES if number % 2 else reversed(SIDES):
            yield number, mode, side


def synthetic_pairs(count: int, config: ModelConfig, seed: int = _SEED) -> PackedPairs:
    """Pairs of lognormal length (20 tokens on average) and of words as frequent as Zipf's law has them.

    There is nothing to translate, but a loss falls as soon as the frequencies are learnt.
    """
    random = np.random.default_rng(seed)
    # The mean of a lognormal is exp(mu + sigma^2 / 2).
    targets = random.lognormal(math.log(_MEAN_TOKENS) - LOG_SIGMA**2 / 2, LOG_SIGMA, count)
    lengths = np.stack([targets * random.uniform(*SOURCE_RATIO, count), targets], axis=1).round()
    lengths = lengths.clip(_SHORTEST, config.max_positions).astype(np.int64)
    first_word = 1 + max(config.pad_id, config.bos_id, config.eos_id)
    frequency = 1 / np.arange(2, config.vocab_size - first_word + 2)
    words = np.arange(first_word, config.vocab_size, dtype=np.int32)
    ids = random.choice(words, size=int(lengths.sum()), p=frequency / frequency.sum())
    offsets = np.concatenate([[0], lengths.ravel().cumsum()])
    ids[offsets[1:] - 1] = config.eos_id
    return PackedPairs(ids, offsets, np.ones(count, dtype=np.int32))


def pairs_of_file(path: Path, count: int, config: ModelConfig) -> PackedPairs:
    """At most `count` pairs of a TSV, filtered and tokenised as `dragoman train` does it."""
    corpus = Corpus(path=path.resolve(), max_pairs=count)
    with tempfile.TemporaryDirectory() as cache:
        packed = prepare(train_config(config, OPTIMISER, corpus), path.parent, Path(cache)).train
        # Copies: what the arrays are mapped to is about to be deleted.
        return PackedPairs(np.array(packed.ids), np.array(packed.offsets), np.array(packed.repeats))


def train_config(model: ModelConfig, optimiser: OptimiserConfig, corpus: Corpus, seed: int = _SEED) -> TrainConfig:
    """An experiment of this shape; its languages are names only."""
    return TrainConfig(
        source_language="en",
        target_language="fr",
        seed=seed,
        # What is validated on, and what is like it, is left out of the training text: a single pair here.
        data=DataConfig(train=[corpus], validation=[corpus.model_copy(update={"max_pairs": 1})], check_language=False),
        tokenizer=TokenizerConfig(vocab_size=model.vocab_size),
        model=model,
        optimiser=optimiser,
    )


def shared_batches(job: Job) -> list[Batch]:
    """The padded batches that both sides get in mode `steps`."""
    order = itertools.cycle(epoch_batches(job.pairs, job.batch_tokens, job.seed, 0))
    return [job.pairs.batch(indices, job.model.pad_id) for indices in itertools.islice(order, WARM_UP + job.steps)]


def pairs_a_batch(job: Job) -> int:
    """The fixed batch size that has as many tokens on average as our batches do."""
    return max(1, round(len(job.pairs) / len(epoch_batches(job.pairs, job.batch_tokens, job.seed, 0))))
