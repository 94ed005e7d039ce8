"""Tokens per second of processor time of the engine process and of the HTTP process, with a runner that computes nothing.

Processor time, so that neither the client nor other programs on the machine are measured: a process that serves at most
so many tokens in a second of it serves no more on a core of its own.
"""

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from uvicorn.loops.auto import auto_loop_factory

from loadtest.host.clients import read_streams
from loadtest.host.null_engine import sitecustomize
from loadtest.local_server import run_server
from loadtest.sentences import SENTENCES
from model.checkpoint_config import load_config, load_tokenizer
from service.app import build_pool
from service.engine.messages import GenerationRequest, Prompt, Search
from service.observability.metrics import Metrics
from service.settings import EMBEDDED_MODEL, Settings
from service.supervisor.pool import EnginePool

WINDOW: Final = int(Settings.model_fields["max_segments_in_flight"].default)
"""Segments of one request that are decoded at once."""
LONG_TEXT: Final = 64
"""Sentences of a long text."""
_WARM_UP_SECONDS: Final = 0.5
_DEADLINE_SECONDS: Final = 600.0


class HostSpeed(NamedTuple):
    """Tokens per second of processor time with so many rows."""

    rows: int
    engine: float
    long_texts: float
    """The HTTP process's, with texts of `LONG_TEXT` sentences."""
    sentences: float
    """The HTTP process's, with one sentence in each request."""


def measure_host(levels: Sequence[int], seconds: float) -> Iterator[HostSpeed]:
    """Yield the speed at each number of rows; each of the three runs takes so many seconds."""
    for rows in levels:
        with _null_engines():
            engine = _engine_speed(rows, seconds)
            long_texts = _server_speed(rows, max(1, rows // WINDOW), _long_text(), seconds)
            sentences = _server_speed(rows, rows, _sentence(), seconds)
        yield HostSpeed(rows, engine, long_texts, sentences)


@contextmanager
def _null_engines() -> Iterator[None]:
    """Have the engine processes that are started meanwhile compute nothing."""
    before = os.environ.get("PYTHONPATH")
    folder = str(Path(sitecustomize.__file__).parent)
    os.environ["PYTHONPATH"] = folder if before is None else os.pathsep.join([folder, before])
    os.environ[sitecustomize.VARIABLE] = "1"
    try:
        yield
    finally:
        del os.environ[sitecustomize.VARIABLE], os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before


def _long_text() -> str:
    return " ".join(SENTENCES[place % len(SENTENCES)] for place in range(LONG_TEXT))


def _sentence() -> str:
    """Return a sentence of average length."""
    return sorted(SENTENCES, key=len)[len(SENTENCES) // 2]


def _processor_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _engine_speed(rows: int, seconds: float) -> float:
    # Constructed, since settings would otherwise read this shell's environment.
    settings = Settings.model_construct(
        model=EMBEDDED_MODEL, device="cpu", mode="int8", replicas=1, threads=1, slots=rows, log_level="warning"
    )
    metrics = Metrics("bench", settings.mode)
    pool = build_pool("en-fr", EMBEDDED_MODEL, load_config(EMBEDDED_MODEL), settings, metrics)
    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        return runner.run(_run_engine(pool, rows, seconds))


async def _run_engine(pool: EnginePool, rows: int, seconds: float) -> float:
    tokenizer = load_tokenizer(EMBEDDED_MODEL)
    sources = [tokenizer.encode(text, "fr", "en") for text in SENTENCES]
    counter = _Counter()
    pool.start()
    try:
        await pool.wait_until_started()
        [pid] = pool.pids
        readers = [asyncio.create_task(_keep_one_in_flight(pool, sources, row, counter)) for row in range(rows)]
        await asyncio.sleep(_WARM_UP_SECONDS)
        tokens, used = counter.tokens, _processor_seconds(pid)
        await asyncio.sleep(seconds)
        speed = (counter.tokens - tokens) / (_processor_seconds(pid) - used)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        return speed
    finally:
        await pool.stop()


class _Counter:
    def __init__(self) -> None:
        self.tokens = 0


async def _keep_one_in_flight(pool: EnginePool, sources: Sequence[list[int]], first: int, counter: _Counter) -> None:
    number = first
    while True:
        source = sources[number % len(sources)]
        number += 1
        generation = pool.submit(GenerationRequest(Prompt(source), Search(2 * len(source))))
        try:
            while await generation.read(asyncio.get_running_loop().time() + _DEADLINE_SECONDS):
                pass
            counter.tokens += len(source)  # the runner writes as many
        finally:
            generation.close()


def _server_speed(rows: int, streams: int, text: str, seconds: float) -> float:
    flags = ["--device", "cpu", "--mode", "int8", "--replicas", "1", "--threads", "1", "--slots", str(rows)]
    flags += ["--max-segments-in-flight", str(WINDOW), "--max-waiting", str(2 * WINDOW * streams)]
    with run_server(flags) as server:
        body = {"q": text, "source": "en", "target": "fr", "stream": True}
        progress = asyncio.run(
            read_streams(server.port, body, streams, (_WARM_UP_SECONDS, seconds), lambda: _processor_seconds(server.pid))
        )
        return progress.tokens / progress.processor_seconds

