"""The requests that every peer gets; their lengths are the same on every machine. Knows neither engines nor torch."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from model.config import ModelConfig

SHORTEST: Final = 5
LONGEST: Final = 80
MEAN: Final = 25
LOG_SIGMA: Final = 0.5
MOST_TOKENS: Final = LONGEST + 1
"""The token limit that engines get: they do not know in advance when a request ends."""
# A translation is about as long as its source, give or take a quarter.
SOURCE_RATIO: Final = (0.8, 1.25)

# Few requests would make a run at low concurrency a matter of luck.
_FEWEST_REQUESTS: Final = 64


@dataclass(frozen=True, slots=True)
class Request:
    """`source_ids` end with eos; exactly `new_tokens` are to come. Random words begin with the length word of these."""

    source_ids: list[int]
    new_tokens: int


Workload = Callable[[int, int], list[Request]]
"""Function of a number of requests and of a seed. Of one seed, more requests begin with the same ones."""


def random_words(config: ModelConfig) -> Workload:
    """Return requests of random words for weights that end each at its own length."""
    return lambda count, seed: make_requests(count, config, seed)


def sentences(requests: Sequence[Request]) -> Workload:
    """Return requests that are drawn from these, as often as needed."""
    return lambda count, seed: random.Random(seed).choices(requests, k=count)


def request_count(concurrency: int, batches: int) -> int:
    """Return the number of requests of a run: whole batches of `concurrency`, so that every batch is full."""
    return concurrency * max(batches, math.ceil(_FEWEST_REQUESTS / concurrency))


def make_requests(count: int, config: ModelConfig, seed: int) -> list[Request]:
    """Return `count` requests, which depend on the arguments alone.

    Target lengths are lognormal (mean 25, cut to 5..80 tokens), source lengths follow them.
    """
    generator = random.Random(seed)
    return [_make_request(config, generator) for _ in range(count)]


def longest_requests(count: int, config: ModelConfig) -> list[Request]:
    """Return `count` requests of the longest sources and targets."""
    words = [config.vocab_size - 1] * (LONGEST - 2)
    return [Request([length_word(config, LONGEST), *words, config.eos_id], LONGEST) for _ in range(count)]


def _make_request(config: ModelConfig, generator: random.Random) -> Request:
    # The mean of a lognormal is exp(mu + sigma^2 / 2).
    mu = math.log(MEAN) - LOG_SIGMA**2 / 2
    target_length = _cut(generator.lognormvariate(mu, LOG_SIGMA))
    source_length = _cut(target_length * generator.uniform(*SOURCE_RATIO))
    first_word = 1 + length_word(config, LONGEST)
    words = [generator.randrange(first_word, config.vocab_size) for _ in range(source_length - 2)]
    return Request([length_word(config, target_length), *words, config.eos_id], target_length)


def length_word(config: ModelConfig, length: int) -> int:
    """Return the id that makes a translation `length` tokens long, from `SHORTEST` to `LONGEST` (see stopping.py)."""
    return 1 + max(config.pad_id, config.bos_id, config.eos_id) + length - SHORTEST


def _cut(length: float) -> int:
    return min(max(round(length), SHORTEST), LONGEST)
