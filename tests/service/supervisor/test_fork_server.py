"""The process that engines are forks of, for real: its death, its silence, and doing without it."""

import asyncio
import ctypes
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import psutil
import pytest

from service.engine.messages import MOST_LENDERS, EngineOptions
from service.errors import EngineFailed
from service.process.hardware import has_cpu_limit, usable_cores
from service.settings import EMBEDDED_MODEL
from service.supervisor.engine_process import EngineProcess
from service.supervisor.engine_requests import EngineObserver
from service.supervisor.fork_server import ForkServer, Zygote
from service.supervisor.forks import ForkingProcess, launch
from service.supervisor.generation import Reader
from tests.generation_requests import generation_request, submitted
from tests.waiting import until

OPTIONS = EngineOptions(checkpoint=str(EMBEDDED_MODEL), mode="int8", threads=1, slots=2, max_prefill=1, max_length=64)
REQUEST = generation_request([50, 60, 70, 2], 20)
PR_SET_CHILD_SUBREAPER = 36

in_one_loop = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Replicas:
    fork_server: ForkServer
    engines: list[EngineProcess]

    def forking(self) -> int:
        assert self.fork_server.pid is not None
        return self.fork_server.pid

    async def until_replaced(self, gone: Collection[int | None], pause: float = 0.01) -> int:
        """Wait for a fork server whose id is another one; return the id."""
        await until(lambda: self.fork_server.pid not in {*gone, None}, pause=pause)
        return self.forking()

    async def lose(self, engine: EngineProcess, text: list[int]) -> None:
        """Kill it under a request, which the next one finishes."""
        os.kill(_pid(engine), signal.SIGSTOP)  # or it might be done before it dies
        generation = submitted(engine.requests, REQUEST)
        os.kill(_pid(engine), signal.SIGKILL)
        assert await _ids(generation) == text


@asynccontextmanager
async def running(fork_server: ForkServer) -> AsyncIterator[Replicas]:
    engines = [EngineProcess(fork_server, number, EngineObserver()) for number in range(2)]
    for engine in engines:
        engine.start()
    try:
        await asyncio.gather(*(engine.wait_until_started() for engine in engines))
        yield Replicas(fork_server, engines)
    finally:
        pids = {engine.pid for engine in engines} | {fork_server.pid}
        await asyncio.gather(*(engine.stop() for engine in engines))
        assert fork_server.pid is None
        await until(lambda: not any(map(psutil.pid_exists, filter(None, pids))))


def _pid(engine: EngineProcess) -> int:
    assert engine.pid is not None
    return engine.pid


def _kilobytes(pid: int, *kinds: str) -> list[int]:
    """Return how much memory of these kinds a process has."""
    maps = Path(f"/proc/{pid}/smaps_rollup").read_text()
    fields = dict(line.split(":", 1) for line in maps.splitlines()[1:])
    return [int(fields[kind].split()[0]) for kind in kinds]


async def _ids(reader: Reader) -> list[int]:
    async with asyncio.timeout(60):
        while await reader.read_tokens(deadline=float("inf")):
            pass
    return [token.token_id for token in reader.tokens]


@in_one_loop
async def test_replicas_share_the_weights(zygote: Zygote) -> None:
    async with running(ForkServer(OPTIONS, zygote)) as replicas:
        first, second = replicas.engines
        assert await _ids(submitted(first.requests, REQUEST)) == await _ids(submitted(second.requests, REQUEST))
        resident, shared = _kilobytes(_pid(first), "Rss", "Shared_Dirty")
        assert shared > resident / 3  # what is not read from a file, and yet not its own


@in_one_loop
async def test_a_fork_server_that_dies_while_it_loads_is_replaced_again(
    zygote: Zygote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.supervisor.fork_server._PAUSE_SECONDS", 0.01)
    async with running(ForkServer(OPTIONS, zygote)) as replicas:
        engines = {_pid(engine) for engine in replicas.engines}
        gone: list[int] = []
        for _ in range(3):
            gone.append(await replicas.until_replaced(gone, pause=0))
            os.kill(gone[-1], signal.SIGKILL)
        await replicas.until_replaced(gone)
        assert {_pid(engine) for engine in replicas.engines} == engines


@in_one_loop
async def test_who_stops_does_not_wait_for_a_model_that_is_loaded_again(
    zygote: Zygote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.supervisor.fork_server._PAUSE_SECONDS", 0.0)
    async with asyncio.timeout(60), running(ForkServer(OPTIONS, zygote)) as replicas:
        gone = replicas.forking()
        os.kill(gone, signal.SIGKILL)
        os.kill(await replicas.until_replaced([gone], pause=0), signal.SIGSTOP)  # so that it would load for ever


async def test_models_share_a_zygote_and_outlive_it(caplog: pytest.LogCaptureFixture) -> None:
    zygote = Zygote()
    async with running(ForkServer(OPTIONS, zygote)) as one, running(ForkServer(OPTIONS, zygote)) as other:
        gone = zygote.pid
        assert gone is not None
        text = await _ids(submitted(one.engines[0].requests, REQUEST))
        own, shared = _kilobytes(other.forking(), "Private_Dirty", "Shared_Dirty")
        assert shared > 3 * own
        os.kill(gone, signal.SIGKILL)
        await until(lambda: zygote.pid not in (gone, None))
        assert "the zygote has died, starting another" in caplog.messages
        before = one.forking(), other.forking()
        await one.lose(one.engines[0], text)
        assert (one.forking(), other.forking()) == before
        os.kill(before[1], signal.SIGKILL)
        await other.until_replaced(before)
        await other.lose(other.engines[1], text)
    assert zygote.pid is None


async def test_a_zygote_is_launched_before_a_model_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    zygote = Zygote()
    zygote.launch()
    monkeypatch.delattr("service.supervisor.fork_server.launch")
    async with running(ForkServer(OPTIONS, zygote)) as one:
        assert await _ids(submitted(one.engines[0].requests, REQUEST))


def test_a_zygote_that_no_model_has_wanted_is_killed() -> None:
    zygote, others = Zygote(), set(psutil.Process().children())
    zygote.launch()
    [child] = set(psutil.Process().children()) - others
    zygote.discard()
    zygote.discard()
    assert not child.is_running()


async def test_a_process_that_has_ended_is_asked_for_no_fork() -> None:
    """Its socket is closed before its owner has noticed."""
    process = ForkingProcess(*launch("info", "auto", forks=True))
    await process.loaded(60)
    os.kill(process.pid, signal.SIGKILL)
    await process.ended()
    with pytest.raises(EOFError):
        await process.fork(0)


def test_lenders_have_numbers_of_their_own() -> None:
    zygote = Zygote()
    one, two, three = object(), object(), object()
    assert [zygote.number_lenders(each, 2) for each in (one, two, one, three)] == [0, 2, 0, 4]
    assert zygote.number_lenders(object(), MOST_LENDERS - 5) == -1
    assert zygote.number_lenders(object(), MOST_LENDERS - 6) == 6


_ANSWERS_LATER: Final = """\
#!{python} -P
import os, runpy, sys, time
sys.path.insert(0, {root!r})
with open({starts!r}, "a") as starts:
    starts.write("started\\n")
if os.path.getsize({starts!r}) <= {silent} * len("started\\n"):
    from service.engine.messages import Loaded, frame
    import socket
    socket.socket(fileno=int(sys.argv[4])).sendall(frame(Loaded()))
    time.sleep(1000)
sys.argv = sys.argv[3:]
runpy.run_module("service.engine", run_name="__main__")
"""
"""The first zygotes load and do not answer, as on a machine that does not come to it."""


@pytest.mark.parametrize(("silent", "comes_up"), [(2, True), (3, False)])
async def test_a_first_start_survives_zygotes_that_do_not_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, silent: int, comes_up: bool
) -> None:
    monkeypatch.setattr("service.supervisor.forks._STANDSTILL_SECONDS", 0.1)
    program, starts = tmp_path / "engine", tmp_path / "starts"
    program.write_text(
        _ANSWERS_LATER.format(python=sys.executable, root=str(Path.cwd()), starts=str(starts), silent=silent)
    )
    program.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(program))
    engine = EngineProcess(ForkServer(OPTIONS), 0, EngineObserver())
    engine.start()
    try:
        if comes_up:
            await engine.wait_until_started()
            assert await _ids(submitted(engine.requests, REQUEST))
        else:
            with pytest.raises(EngineFailed, match="none of 3 zygotes has answered"):
                await engine.wait_until_started()
    finally:
        await engine.stop()
    assert len(starts.read_text().splitlines()) == 3


@in_one_loop
async def test_a_fork_server_that_hangs_while_it_loads_is_replaced(
    zygote: Zygote, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The second one, when it is known how long the model takes."""
    monkeypatch.setattr("service.supervisor.fork_server._PAUSE_SECONDS", 0.0)
    monkeypatch.setattr("service.supervisor.fork_server._LEAST_LOAD_SECONDS", 1.0)
    monkeypatch.setattr("service.supervisor.fork_server._TIMES_SLOWER", 1)
    async with asyncio.timeout(120), running(ForkServer(OPTIONS, zygote)) as replicas:
        first, second = replicas.engines
        text = await _ids(submitted(first.requests, REQUEST))
        gone = replicas.forking()
        os.kill(gone, signal.SIGKILL)
        hangs = await replicas.until_replaced([gone], pause=0)
        os.kill(hangs, signal.SIGSTOP)
        await replicas.lose(first, text)
        reasons = [vars(record).get("reason", "") for record in caplog.records]
        assert any(reason.startswith("the fork server was not ready after") for reason in reasons)
        assert replicas.forking() != hangs
        await replicas.lose(second, text)


@pytest.fixture
def inherits_orphans() -> Iterator[None]:
    """Make this process inherit orphans and reap them, as the first process of a container does."""
    prctl = ctypes.CDLL(None).prctl
    assert prctl(PR_SET_CHILD_SUBREAPER, 1) == 0
    yield
    assert prctl(PR_SET_CHILD_SUBREAPER, 0) == 0


@in_one_loop
@pytest.mark.skipif(sys.platform != "linux", reason="orphans are given to another process than the first on Linux only")
@pytest.mark.usefixtures("inherits_orphans")
@pytest.mark.parametrize("at_once", [True, False])
async def test_no_zombie_is_left_where_nobody_else_clears_away(zygote: Zygote, at_once: bool) -> None:
    async with running(ForkServer(OPTIONS, zygote)) as replicas:
        first, second = replicas.engines
        text = await _ids(submitted(first.requests, REQUEST))
        gone = replicas.forking()
        killed = [gone, _pid(first), _pid(second)]
        os.kill(gone, signal.SIGKILL)
        if not at_once:
            await replicas.until_replaced([gone])
        await asyncio.gather(replicas.lose(first, text), replicas.lose(second, text))
        await until(lambda: not any(map(psutil.pid_exists, killed)))


@in_one_loop
async def test_a_fork_that_fails_costs_no_model(zygote: Zygote, caplog: pytest.LogCaptureFixture) -> None:
    """The system may have no room for another process, for a while."""
    async with running(ForkServer(OPTIONS, zygote)) as replicas:
        [engine, _] = replicas.engines
        text = await _ids(submitted(engine.requests, REQUEST))
        parent = replicas.forking()
        # The superuser is not counted: what it may have is descriptors, and without one there is no channel.
        limits = resource.prlimit(parent, resource.RLIMIT_NOFILE)
        resource.prlimit(parent, resource.RLIMIT_NOFILE, (3, limits[1]))
        generation = submitted(engine.requests, REQUEST)
        os.kill(_pid(engine), signal.SIGKILL)
        await until(lambda: "engine cannot start" in caplog.text)
        resource.prlimit(parent, resource.RLIMIT_NOFILE, limits)
        assert await _ids(generation) == text
        assert replicas.forking() == parent


@in_one_loop
@pytest.mark.slow
async def test_where_nothing_forks_each_engine_loads_the_model(zygote: Zygote) -> None:
    async with running(ForkServer(OPTIONS, zygote)) as forked:
        text = await _ids(submitted(forked.engines[0].requests, REQUEST))
    async with running(ForkServer(OPTIONS, Zygote(forks=False))) as replicas:
        first, second = replicas.engines
        assert replicas.fork_server.pid is replicas.fork_server.zygote.pid is None
        assert first.pid != second.pid
        assert await _ids(submitted(second.requests, REQUEST)) == text
        await replicas.lose(first, text)


@in_one_loop
@pytest.mark.skipif(usable_cores() < 2 or has_cpu_limit(), reason="lending needs two cores")
async def test_an_engine_has_the_thread_of_one_without_work(zygote: Zygote) -> None:
    lends = msgspec.structs.replace(OPTIONS, engines=2, lends_threads=True)
    long = generation_request([50, 60, 70, 80, 90] * 10 + [2], 60)
    texts, threads = [], []
    for options in (OPTIONS, lends):
        async with running(ForkServer(options, zygote)) as replicas:
            first = replicas.engines[0]
            await asyncio.sleep(0.01)  # the other one shall have had no work for longer than a millisecond
            texts.append(await _ids(submitted(first.requests, long)))
            threads.append(len(list(Path(f"/proc/{_pid(first)}/task").iterdir())))  # noqa: ASYNC240
    assert threads == [1, 2]
    assert texts[0] == texts[1]
