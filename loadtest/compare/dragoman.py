"""Dragoman's engine as a peer: the real engine process behind the real pool, without HTTP.

Weights are random but for what ends each request at its own length (loadtest/compare/stopping.py), and every run
checks that it did.
"""

import asyncio
import io
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import sentencepiece
import torch

from loadtest.compare.peers import Measured, Peer, WrongLength
from loadtest.compare.stopping import stop_at_length_words
from loadtest.compare.workload import LONGEST, Request
from loadtest.sentences import SENTENCES
from model.checkpoint import save_checkpoint
from model.config import ModelConfig
from model.manifest import CheckpointConfig, Direction
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from service.engine.pool import EnginePool
from service.engine.process import EngineObserver, EngineProcess
from service.engine.request import EngineOptions, GenerationRequest
from service.settings import Settings

_WEIGHTS_SEED: Final = 0
_REQUEST_TIMEOUT_SECONDS: Final = 600.0
# More than any request asks for: the engine does not know in advance when one will end.
MOST_TOKENS: Final = LONGEST + 1
# As the service runs it unless told otherwise.
_SLOTS: Final = int(Settings.model_fields["slots"].default)
_MAX_PREFILL: Final = int(Settings.model_fields["max_prefill"].default)


@contextmanager
def dragoman(config: ModelConfig, threads: int) -> Iterator[Peer]:
    """One engine process with `threads` threads, mode fp32."""
    with tempfile.TemporaryDirectory() as directory, asyncio.Runner() as runner:
        save_random_checkpoint(Path(directory), config)
        options = EngineOptions(
            checkpoint=directory,
            mode="fp32",
            threads=threads,
            slots=_SLOTS,
            max_prefill=_MAX_PREFILL,
            max_length=config.max_positions,
        )
        # Only `admit` looks at the capacity, and a closed loop needs no admission.
        pool = EnginePool([EngineProcess(options, EngineObserver())], capacity=0)
        runner.run(_start(pool))
        try:
            yield _Dragoman(pool, runner)
        finally:
            runner.run(pool.stop())


def save_random_checkpoint(directory: Path, config: ModelConfig) -> None:
    """A checkpoint of this shape that stops where length words say; the same weights every time."""
    torch.manual_seed(_WEIGHTS_SEED)
    model = Transformer(config)
    stop_at_length_words(model)
    manifest = CheckpointConfig(directions=(Direction(source="en", target="fr"),), model=config)
    save_checkpoint(directory, manifest, model.state_dict(), _any_tokenizer())


def _any_tokenizer() -> Tokenizer:
    """A checkpoint has one; the engine works on ids and does not read it."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=written, model_type="char", minloglevel=2
    )
    return Tokenizer(written.getvalue())


async def _start(pool: EnginePool) -> None:
    pool.start()
    await pool.wait_until_started()


class _Dragoman:
    def __init__(self, pool: EnginePool, runner: asyncio.Runner) -> None:
        self._pool = pool
        self._runner = runner

    def run(self, requests: Sequence[Request], concurrency: int) -> Measured:
        return self._runner.run(_ClosedLoop(self._pool, requests).run(concurrency))


class _ClosedLoop:
    """Keeps `concurrency` requests in flight until the queue is empty.

    What comes after that, with fewer in flight, is finished and checked but not counted.
    """

    def __init__(self, pool: EnginePool, requests: Sequence[Request]) -> None:
        self._pool = pool
        self._queue = iter(requests)
        self._tokens = 0
        self._first_token_seconds: list[float] = []
        self._full_until: float | None = None

    async def run(self, concurrency: int) -> Measured:
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(self._keep_one_in_flight())
        assert self._full_until is not None
        return Measured(self._tokens, self._full_until - started, self._first_token_seconds)

    async def _keep_one_in_flight(self) -> None:
        for request in self._queue:
            await self._generate(request)
        if self._full_until is None:
            self._full_until = time.perf_counter()

    async def _generate(self, request: Request) -> None:
        submitted = time.perf_counter()
        deadline = asyncio.get_running_loop().time() + _REQUEST_TIMEOUT_SECONDS
        generation = self._pool.submit(GenerationRequest(request.source_ids, MOST_TOKENS))
        try:
            while tokens := await generation.next_tokens(deadline):
                if len(tokens) == len(generation.tokens):
                    self._first_token_seconds.append(time.perf_counter() - submitted)
                if self._full_until is None:
                    self._tokens += len(tokens)
        finally:
            generation.close()
        if len(generation.tokens) != request.new_tokens:
            raise WrongLength(f"dragoman: {len(generation.tokens)} tokens for a request of {request.new_tokens}")
