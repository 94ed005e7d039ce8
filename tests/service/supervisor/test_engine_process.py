"""Supervision, with real engine processes that cannot work."""

import asyncio
import os
import signal
import socket
import time
from typing import Final, cast

import pytest
from msgspec.structs import replace

from service.engine.messages import Admitted, Cancel, EngineOptions, Ready, frame
from service.errors import EngineFailed
from service.settings import EMBEDDED_MODEL
from service.supervisor.engine_process import EngineProcess
from service.supervisor.engine_requests import EngineObserver
from service.supervisor.fork_server import ForkServer, Zygote
from service.supervisor.forks import Engine, Watchdog
from tests.generation_requests import generation_request, submitted
from tests.waiting import until

_LONGER_THAN_ALL_CHANCES: Final = 2.5  # which an engine gets to be heard, however short its timeout

NOWHERE: Final = EngineOptions("nowhere", "fp32", threads=1, slots=1, max_prefill=1, max_length=8)
EMBEDDED: Final = replace(NOWHERE, checkpoint=str(EMBEDDED_MODEL), max_length=256)

in_one_loop = pytest.mark.asyncio(loop_scope="module")


@in_one_loop
@pytest.mark.parametrize(
    ("checkpoint", "mode", "device", "reason"),
    [
        ("nowhere", "fp32", "cpu", r"nowhere is not a checkpoint"),
        ("nowhere", "nonsense", "cpu", "ended before it was ready"),
        ("nowhere", "int8", "cuda", r"mode: int8 does not run on cuda; fp32 and bf16 do"),
        (str(EMBEDDED_MODEL), "bf16", "cuda:99", r"device: there is no cuda:99"),
    ],
)
async def test_a_first_start_that_fails_is_reported_and_not_repeated(
    zygote: Zygote, checkpoint: str, mode: str, device: str, reason: str
) -> None:
    """The error is the engine's own reason, or reports that it just died."""
    options = replace(NOWHERE, checkpoint=checkpoint, mode=mode, device=device)
    engine = EngineProcess(ForkServer(options, zygote), 0, EngineObserver())
    engine.start()
    started = time.monotonic()
    with pytest.raises(EngineFailed, match=reason):
        await engine.wait_until_started()
    assert time.monotonic() - started < 60
    assert not engine.ready
    await engine.stop()


@in_one_loop
async def test_files_that_have_changed_are_not_loaded(zygote: Zygote) -> None:
    """The tokenizer is that of the files that were there."""
    engine = EngineProcess(ForkServer(replace(EMBEDDED, content_id="of others"), zygote), 0, EngineObserver())
    engine.start()
    with pytest.raises(EngineFailed, match="en-fr: its files have changed since the server read them"):
        await engine.wait_until_started()
    await engine.stop()


class Restarts:
    count = 0

    def restarted(self) -> None:
        self.count += 1


@in_one_loop
@pytest.mark.parametrize(("stable_seconds", "waits"), [(0.0, [0.1, 0.1, 0.1]), (600.0, [0.1, 0.2, 0.4])])
async def test_only_deaths_soon_after_a_start_are_answered_ever_later(
    zygote: Zygote,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    stable_seconds: float,
    waits: list[float],
) -> None:
    monkeypatch.setattr("service.supervisor.engine_process._STABLE_SECONDS", stable_seconds)
    engine = EngineProcess(ForkServer(EMBEDDED, zygote), 0, EngineObserver())
    engine.start()
    await engine.wait_until_started()
    for deaths in range(1, len(waits) + 1):
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGKILL)
        async with asyncio.timeout(60):
            generation = submitted(engine.requests, generation_request([5, 2], 3))
            assert await generation.read_tokens(deadline=float("inf"))
        logged = [vars(record)["backoff_seconds"] for record in caplog.records if "backoff_seconds" in vars(record)]
        assert logged == waits[:deaths]
    await engine.stop()


@in_one_loop
async def test_silence_with_a_reason_is_no_hang(zygote: Zygote) -> None:
    """Loading, nothing to do, or a loop of ours that was held up while the engine spoke."""
    restarts = Restarts()
    engine = EngineProcess(ForkServer(EMBEDDED, zygote), 0, EngineObserver(restarted=restarts.restarted), 0.1)
    waits_for_the_model = submitted(engine.requests, generation_request([5, 2], 3))
    engine.start()
    loading = await until(lambda: engine.fork_server.pid, pause=0)
    assert loading is not None
    os.kill(loading, signal.SIGSTOP)  # so that it loads long enough
    await asyncio.sleep(_LONGER_THAN_ALL_CHANCES)
    os.kill(loading, signal.SIGCONT)
    await waits_for_the_model.read_tokens(deadline=float("inf"))
    await asyncio.sleep(_LONGER_THAN_ALL_CHANCES)
    generation = submitted(engine.requests, generation_request([5, 2], 200))
    time.sleep(_LONGER_THAN_ALL_CHANCES)  # noqa: ASYNC251
    tokens = 0
    while received := await generation.read_tokens(deadline=float("inf")):
        tokens += len(received)
    assert tokens > 0
    await engine.stop()
    assert restarts.count == 0


@pytest.mark.parametrize(("timeout_seconds", "is_killed"), [(600.0, False), (0.0, True)])
async def test_time_without_work_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch, timeout_seconds: float, is_killed: bool
) -> None:
    """An engine that had nothing to do for an hour has its whole time for what it is then given."""
    monkeypatch.setattr("service.supervisor.engine_process._CHECK_SECONDS", 0.01)
    engine = EngineProcess(ForkServer(NOWHERE), 0, EngineObserver(), timeout_seconds)
    silent = await asyncio.create_subprocess_exec("sleep", "600")
    ours, theirs = socket.socketpair()
    reader, sequence = await asyncio.open_unix_connection(sock=ours)
    engine._engine = Engine(silent.pid, reader, sequence)
    engine._loaded.set()
    engine.requests.engine_started()
    engine._last_report_at = time.monotonic() - 3600
    watchdog = Watchdog(silent.pid, 4.0)
    reading = asyncio.create_task(engine._read(engine._engine, watchdog))
    await asyncio.sleep(0.05)  # several chances
    assert not reading.done()
    submitted(engine.requests, generation_request([5, 2], 3))
    await asyncio.wait({reading}, timeout=10 if is_killed else 0.2)
    assert reading.done() == is_killed
    if not is_killed:
        theirs.sendall(b"report")
        silent.kill()
    assert await reading == (b"" if is_killed else b"report")
    assert await silent.wait() == -signal.SIGKILL
    sequence.close()
    theirs.close()


@in_one_loop
async def test_a_mode_for_gpus_works_without_one(zygote: Zygote, caplog: pytest.LogCaptureFixture) -> None:
    """bf16, and what it does on a device without graphs, through the whole of an engine process."""
    engine = EngineProcess(ForkServer(replace(EMBEDDED, mode="bf16"), zygote), 0, EngineObserver())
    engine.start()
    with caplog.at_level("INFO"):
        await engine.wait_until_started()
    assert [record.__dict__["device"] for record in caplog.records if record.message == "engine ready"] == ["cpu"]
    generation = submitted(engine.requests, generation_request([50, 60, 70, 2], 5))
    tokens = []
    while received := await generation.read_tokens(deadline=float("inf")):
        tokens += received
    assert tokens[-1].finish_reason is not None
    await engine.stop()


async def test_stopping_ends_what_waits() -> None:
    engine = EngineProcess(ForkServer(NOWHERE), 0, EngineObserver())
    generation = submitted(engine.requests, generation_request([5, 2], 3))
    assert engine.requests.load == 1
    await engine.stop()
    assert engine.requests.load == 0
    with pytest.raises(EngineFailed, match="stopped"):
        await generation.read_tokens(deadline=float("inf"))


def test_who_waits_for_another_engine_is_not_admitted_before_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting counts from the submission to the present engine; an admission by an engine that died stays."""
    monkeypatch.setattr(EngineProcess, "_send", lambda self, command: None)
    engine = EngineProcess(ForkServer(NOWHERE), 0, EngineObserver())
    early = submitted(engine.requests, generation_request([5, 2], 3))
    engine._handle(_admitting(early.generation.request_id))
    admitted_at = early.admitted_at
    waiting = submitted(engine.requests, generation_request([5, 2], 3))
    again = time.monotonic() + 60
    monkeypatch.setattr("service.supervisor.engine_requests.time.monotonic", lambda: again)
    engine._handle(Ready(parameters=1, device="cpu"))
    engine._handle(_admitting(early.generation.request_id, waiting.generation.request_id))
    assert waiting.admitted_at == again + 0.5
    assert early.admitted_at == admitted_at


def _admitting(*request_ids: int) -> Admitted:
    return Admitted([*request_ids], [0.5] * len(request_ids))


class _NotedCommands:
    """The end of a channel that notes what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def write_eof(self) -> None: ...

    def close(self) -> None: ...


def _ended_engine(commands: _NotedCommands) -> Engine:
    reports = asyncio.StreamReader()
    reports.feed_eof()
    return Engine(0, reports, cast(asyncio.StreamWriter, commands))


async def test_commands_of_one_turn_are_written_together() -> None:
    """Commands that were not written when an engine ended are not written to the next one."""
    process = EngineProcess(ForkServer(NOWHERE, Zygote(forks=False)), 0, EngineObserver())
    first, second = _NotedCommands(), _NotedCommands()
    process._engine = _ended_engine(first)
    for number in (1, 2):
        process._send(Cancel(number))
    await asyncio.sleep(0)
    process._send(Cancel(3))
    await process._end()
    process._engine = _ended_engine(second)
    process._send(Cancel(4))
    await asyncio.sleep(0)
    assert first.written == [frame(Cancel(1)) + frame(Cancel(2))]
    assert second.written == [frame(Cancel(4))]
