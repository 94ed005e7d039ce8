"""The engine process with a runner that computes nothing, and a client that keeps its slots and its queue full."""

import gc
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from typing import Final

import msgspec
import psutil

from loadtest.host.null_runner import NullRunner
from loadtest.sentences import SENTENCES
from model.checkpoint_config import load_config, load_tokenizer
from service.engine.channel import Frames, SocketChannel, frame
from service.engine.generation_request import GenerationRequest, Prompt, Search
from service.engine.loop import OBJECTS_BETWEEN_COLLECTIONS, EngineLoop
from service.engine.messages import Report, StepReport, Submit
from service.engine.scheduler import Scheduler
from service.errors import EngineFailed
from service.settings import EMBEDDED_MODEL

MAX_PREFILL: Final = 32
"""The server's default on a GPU, where steps are short enough for the host to matter."""
WARM_UP_SECONDS: Final = 0.5
_READ_BYTES: Final = 1 << 20


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def engine_speed(rows: int, seconds: float) -> float:
    """Return the tokens per second of processor time with so many rows, while as many requests wait."""
    tokenizer = load_tokenizer(EMBEDDED_MODEL)
    client = _Client([tokenizer.encode(text, "fr", "en") for text in SENTENCES])
    ours, theirs = socket.socketpair()
    with ours, _engine(theirs, rows) as engine:
        assert engine.pid is not None
        client.submit(ours, 2 * rows)
        client.run(ours, WARM_UP_SECONDS)
        used = processor_seconds(engine.pid)
        tokens = client.run(ours, seconds)
        return tokens / (processor_seconds(engine.pid) - used)


@contextmanager
def _engine(channel: socket.socket, rows: int) -> Iterator[BaseProcess]:
    process = get_context("spawn").Process(target=_serve, args=(channel, rows))
    process.start()
    channel.close()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def _serve(channel: socket.socket, rows: int) -> None:
    config = load_config(EMBEDDED_MODEL).model
    scheduler = Scheduler(slots=rows, max_prefill=MAX_PREFILL, bos_id=config.bos_id, eos_id=config.eos_id)
    # As the worker does.
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    EngineLoop(scheduler, NullRunner(config.vocab_size, config.eos_id), SocketChannel(channel)).run()


class _Client:
    """Submits a request for each one that has ended, and counts tokens; does nothing else, to be faster."""

    def __init__(self, sources: Sequence[list[int]]) -> None:
        # Framed beforehand; an id may come again once its request has long ended.
        requests = [GenerationRequest(Prompt(source), Search(2 * len(source))) for source in sources]
        count = 20 * len(requests) + 8192
        numbered = zip(range(count), cycle(requests))
        self._commands = cycle([frame(Submit(number, request, time.monotonic())) for number, request in numbered])
        self._frames = Frames()
        self._decoder = msgspec.msgpack.Decoder(Report)

    def submit(self, channel: socket.socket, count: int) -> None:
        """Submit the next requests."""
        channel.sendall(b"".join(islice(self._commands, count)))

    def run(self, channel: socket.socket, seconds: float) -> int:
        """Keep as many requests in flight as there are; return the number of tokens that came in that time."""
        end = time.monotonic() + seconds
        tokens = 0
        while time.monotonic() < end:
            ended = 0
            if not (data := channel.recv(_READ_BYTES)):
                raise EngineFailed("the engine process has ended")
            for body in self._frames.feed(data):
                report = self._decoder.decode(body)
                if isinstance(report, StepReport):
                    tokens += report.block.tokens
                    ended += len(report.block.ends) - report.block.ends.count(0)
            if ended:
                self.submit(channel, ended)
        return tokens
