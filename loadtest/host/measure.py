"""Tokens per second of processor time of the engine and the HTTP process, with a runner that computes nothing.

Processor time, so that neither the client nor other programs on the machine are measured: a process that serves at most
so many tokens in a second of it serves no more on a core of its own.
"""

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from loadtest.host.clients import read_streams
from loadtest.host.engine import MAX_PREFILL, WARM_UP_SECONDS, engine_speed, processor_seconds
from loadtest.host.null_engine import sitecustomize
from loadtest.local_server import run_server
from loadtest.sentences import SENTENCES
from service.settings import Settings

WINDOW: Final = int(Settings.model_fields["max_segments_in_flight"].default)
"""Segments of one request that are decoded at once."""
LONG_TEXT: Final = 64
"""Sentences of a long text."""


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
        engine = engine_speed(rows, seconds)
        with _null_engines():
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


def _server_speed(rows: int, streams: int, text: str, seconds: float) -> float:
    settings = {
        "--device": "cpu",
        "--mode": "int8",
        "--replicas": 1,
        "--threads": 1,
        "--slots": rows,
        "--max-prefill": MAX_PREFILL,
        "--max-segments-in-flight": WINDOW,
        "--max-waiting": 2 * WINDOW * streams,
    }
    flags = [str(part) for setting in settings.items() for part in setting]
    with run_server(flags) as server:
        body = {"q": text, "source": "en", "target": "fr", "stream": True}
        used = partial(processor_seconds, server.pid)
        progress = asyncio.run(read_streams(server.port, body, streams, (WARM_UP_SECONDS, seconds), used))
        return progress.tokens / progress.processor_seconds
