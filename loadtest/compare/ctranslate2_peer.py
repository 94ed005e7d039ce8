"""CTranslate2 as a peer, greedy, on Dragoman's own weights: a translator for each thread, with one thread each.

That is its best setting here; one translator with several threads is slower. It batches what comes in one call and
takes nothing into a running batch, so the requests in flight are shared out among the translators, and whichever is
done gets as many new ones, in order of arrival. Rows that have ended leave their batch, and the weights end them
(loadtest/compare/stopping.py).
"""

import itertools
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import ctranslate2

from loadtest.compare.ctranslate2_model import Quantization, convert, pieces
from loadtest.compare.dragoman import MOST_TOKENS, save_random_checkpoint
from loadtest.compare.peers import Measured, Peer, WrongLength
from loadtest.compare.workload import Request
from model.config import ModelConfig


def ctranslate2_int8(config: ModelConfig, threads: int) -> AbstractContextManager[Peer]:
    """In this process, with `threads` translators; int8 is its fastest on most processors."""
    return _ctranslate2(config, threads, "int8")


def ctranslate2_float32(config: ModelConfig, threads: int) -> AbstractContextManager[Peer]:
    """As `ctranslate2_int8`, in float32."""
    return _ctranslate2(config, threads, "float32")


@contextmanager
def _ctranslate2(config: ModelConfig, threads: int, quantization: Quantization) -> Iterator[Peer]:
    with tempfile.TemporaryDirectory() as directory:
        checkpoint, converted = Path(directory, "checkpoint"), Path(directory, "converted")
        save_random_checkpoint(checkpoint, config)
        convert(checkpoint, converted, quantization)
        translator = ctranslate2.Translator(
            str(converted), compute_type=quantization, inter_threads=threads, intra_threads=1
        )
        yield _CTranslate2(translator, pieces(checkpoint))
        translator.unload_model()


class _CTranslate2:
    def __init__(self, translator: Any, tokens: Sequence[str]) -> None:
        self._translator = translator
        self._tokens = tokens

    def run(self, requests: Sequence[Request], concurrency: int) -> Measured:
        """As Dragoman's: what comes when fewer than `concurrency` are in flight is finished, but not counted."""
        translators = min(self._translator.num_translators, concurrency)
        shares = [len(range(first, concurrency, translators)) for first in range(translators)]
        lanes = Lanes(self._translate, requests)
        started = time.perf_counter()
        with ThreadPoolExecutor(translators) as executor:
            full_until = min(executor.map(lanes.keep_in_flight, shares))
        return Measured(lanes.tokens_until(full_until), full_until - started)

    def _translate(self, batch: Sequence[Request]) -> None:
        results = self._translator.translate_batch(
            [[self._tokens[token_id] for token_id in request.source_ids] for request in batch],
            beam_size=1,
            max_decoding_length=MOST_TOKENS,
            return_end_token=True,
        )
        for request, result in zip(batch, results, strict=True):
            if len(result.hypotheses[0]) != request.new_tokens:
                lengths = f"{len(result.hypotheses[0])} tokens for a request of {request.new_tokens}"
                raise WrongLength(f"ctranslate2: {lengths}")


class Batch(NamedTuple):
    """Translated from `started` to `ended`."""

    tokens: int
    started: float
    ended: float

    def tokens_until(self, moment: float) -> float:
        """By time, if `moment` is in between: CTranslate2 says nothing of a batch before its end."""
        share = (moment - self.started) / (self.ended - self.started)
        return self.tokens * min(max(share, 0.0), 1.0)


class Lanes:
    """Threads that take requests from one queue; each waits for a translator of its own."""

    def __init__(self, translate: Callable[[Sequence[Request]], None], requests: Sequence[Request]) -> None:
        self._translate = translate
        self._queue = iter(requests)
        self._lock = threading.Lock()
        self._batches: list[Batch] = []

    def keep_in_flight(self, count: int) -> float:
        """A batch of `count` requests after the other; returns when there were fewer left."""
        while len(batch := self._take(count)) == count:
            self._run(batch)
        drained = time.perf_counter()
        if batch:
            self._run(batch)
        return drained

    def tokens_until(self, moment: float) -> int:
        """Of all batches, when they have ended."""
        return round(sum(batch.tokens_until(moment) for batch in self._batches))

    def _take(self, count: int) -> list[Request]:
        with self._lock:
            return list(itertools.islice(self._queue, count))

    def _run(self, batch: Sequence[Request]) -> None:
        started = time.perf_counter()
        self._translate(batch)
        tokens = sum(request.new_tokens for request in batch)
        self._batches.append(Batch(tokens, started, time.perf_counter()))
