"""The host benchmark: its runner, its clients, its command; the figures themselves are left out."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loadtest.bench.__main__ import app
from loadtest.host import command
from loadtest.host.clients import StreamFailed, read_streams
from loadtest.host.measure import HostSpeed
from loadtest.host.null_runner import NullRunner
from service.engine.generation_request import Sampling
from service.engine.loop import EngineLoop
from service.engine.messages import Submit
from service.engine.scheduler import Scheduler
from tests.conftest import one_line
from tests.generation_requests import generation_request
from tests.parity.engine import Arrivals

EOS = 2
EVENTS = b"".join(b"id: %d\r\nevent: token\r\ndata: {}\r\n\r\n" % number for number in range(7))


def test_a_translation_has_as_many_tokens_as_its_source() -> None:
    lengths = [1, 5, 40, 17]
    sampled = Sampling(1.0, seed=3)
    requests = [generation_request([9] * (length - 1) + [EOS], 80, sampled) for length in lengths]
    arrivals = Arrivals([Submit(number, request, 0.0) for number, request in enumerate(requests)], seed=1)
    scheduler = Scheduler(slots=3, max_prefill=2, bos_id=1, eos_id=EOS)
    EngineLoop(scheduler, NullRunner(1000, EOS), arrivals).run()
    assert [len(arrivals.tokens[number]) for number in range(4)] == lengths
    assert [ids.index(EOS) + 1 for ids in arrivals.tokens.values()] == [len(ids) for ids in arrivals.tokens.values()]


@asynccontextmanager
async def _server(parts: Sequence[bytes]) -> AsyncIterator[int]:
    """A server that answers three requests of each connection with these parts, one write each."""

    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        for _ in range(3):
            if not await reader.read(1000):
                return  # the client has left
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        for writer in writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def _read(port: int, streams: int) -> int:
    count = iter([0.0, 1.0])
    progress = await read_streams(port, {"q": "x"}, streams, (0.0, 1.0), lambda: next(count))
    assert progress.processor_seconds == 1.0
    return progress.tokens


async def test_tokens_are_counted_across_the_parts_of_a_stream() -> None:
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    whole = head + EVENTS + b"\r\n0\r\n\r\n"
    parts = [whole[start : start + 25] for start in range(0, len(whole), 25)]
    async with _server(parts) as port:
        assert await _read(port, streams=2) == 2 * 3 * 7


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 429 Too Many Requests\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\nevent: error\r\ndata: {}\r\n"]
)
async def test_a_stream_that_fails_ends_the_benchmark(answer: bytes) -> None:
    async with _server([answer]) as port:
        with pytest.raises(StreamFailed, match="the server answered"):
            await _read(port, streams=1)


def test_the_command_prints_medians_and_writes_every_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    speeds = iter(range(1000, 7000, 1000))

    def measured(levels: Sequence[int], seconds: float) -> Iterator[HostSpeed]:
        for rows in levels:
            speed = next(speeds)
            yield HostSpeed(rows, speed, speed + 1, speed + 2)

    monkeypatch.setattr(command, "measure_host", measured)
    file = tmp_path / "host.json"
    arguments = ["--host", "--concurrency", "1,64", "--rounds", "3", "--json", str(file)]
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert "3,000" in done.output
    assert "4,002" in done.output
    runs = json.loads(file.read_text())["runs"]
    assert [(run["rows"], run["engine"]) for run in runs] == [
        (1, 1000),
        (64, 2000),
        (1, 3000),
        (64, 4000),
        (1, 5000),
        (64, 6000),
    ]


def test_a_failure_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(levels: Sequence[int], seconds: float) -> Iterator[HostSpeed]:
        raise StreamFailed("the server answered 429")

    monkeypatch.setattr(command, "measure_host", failing)
    done = CliRunner().invoke(app, ["--host"])
    assert done.exit_code == 2
    assert one_line(done.stderr) == "dragoman: the server answered 429"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [(["--host", "--concurrency", "0"], "must be positive numbers"), ([], "must be base, default or trained")],
)
def test_wrong_options(arguments: list[str], problem: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert problem in one_line(done.stderr)
