"""The replica that gets the next request, and the requests that a stop ends."""

import asyncio

import pytest

from service.engine.generation_request import Beam, GenerationRequest
from service.engine.messages import EngineOptions
from service.errors import EngineFailed, QueueFull
from service.supervisor.engine_process import EngineProcess
from service.supervisor.engine_requests import EngineObserver
from service.supervisor.fork_server import ForkServer
from service.supervisor.generation import Reader
from service.supervisor.pool import EnginePool
from tests.generation_requests import generation_request
from tests.waiting import until


class Replica(EngineProcess):
    """A replica that is ready unless a test says otherwise, and never reports."""

    is_ready = True

    def __init__(self) -> None:
        options = EngineOptions(checkpoint="", mode="", threads=1, slots=64, max_prefill=1, max_length=8)
        super().__init__(ForkServer(options), 0, EngineObserver())

    @property
    def ready(self) -> bool:
        return self.is_ready

    def _send(self, command: object) -> None: ...


REQUEST = generation_request([5, 2], 7)


def _submit(pool: EnginePool, count: int, request: GenerationRequest = REQUEST) -> list[Reader]:
    return [pool.submit(request) for _ in range(count)]


async def test_the_least_loaded_gets_the_next() -> None:
    pool = EnginePool([Replica(), Replica(), Replica()], capacity=100)
    _submit(pool, 7)
    assert [each.requests.load for each in pool.engines] == [3, 2, 2]


async def test_a_beam_counts_as_many_as_it_is_wide() -> None:
    pool = EnginePool([Replica(), Replica()], capacity=100)
    pool.submit(generation_request([5, 2], 7, beam=Beam(4)))
    _submit(pool, 3)
    assert [each.requests.load for each in pool.engines] == [4, 3]


async def test_a_replica_that_restarts_gets_none_while_another_is_there() -> None:
    replicas = [Replica(), Replica()]
    replicas[0].is_ready = False
    pool = EnginePool([*replicas], capacity=100)
    _submit(pool, 6)
    assert [each.requests.load for each in pool.engines] == [0, 6]


async def test_a_full_house_is_noticed() -> None:
    pool = EnginePool([Replica()], capacity=2)
    pool.admit()
    _submit(pool, 2)
    with pytest.raises(QueueFull):
        pool.admit()


async def test_who_comes_while_it_stops_waits_for_the_next_start() -> None:
    pool = EnginePool([Replica()], capacity=100)
    pool.running = True
    [before] = _submit(pool, 1)
    stopping = asyncio.create_task(pool.stop("no room"))
    await until(lambda: not pool.running, pause=0)
    [after] = _submit(pool, 1)
    await stopping
    with pytest.raises(EngineFailed, match="no room"):
        await before.read_tokens(asyncio.get_running_loop().time() + 60)
    assert pool.load == 1
    after.close()


async def test_requests_of_a_dead_replica_move_to_a_ready_one() -> None:
    replicas = [Replica(), Replica()]
    pool = EnginePool([*replicas], capacity=100)
    pool.running = True
    requests = _submit(pool, 6)
    replicas[0].is_ready = False
    pool._on_change()
    assert [each.requests.load for each in replicas] == [0, 6]
    replicas[0].is_ready = True
    pool._on_change()
    assert [each.requests.load for each in replicas] == [3, 3], "those that wait for a slot"
    for each in requests:
        each.close()
    assert pool.load == 0


async def test_without_a_ready_replica_requests_stay() -> None:
    replicas = [Replica(), Replica()]
    pool = EnginePool([*replicas], capacity=100)
    pool.running = True
    _submit(pool, 6)
    for each in replicas:
        each.is_ready = False
        pool._on_change()
    assert pool.load == 6
    assert sorted(each.requests.load for each in replicas) == [0, 6]


class LostPool(EnginePool):
    """A pool of one replica that is replaced."""

    def __init__(self) -> None:
        self.replica = Replica()
        super().__init__([self.replica], capacity=100)
        self.running = True

    def report(self, *, ready: bool, refusal: str | None = None) -> bool:
        """Report a change of the replica; return True if it is being replaced."""
        self.replica.is_ready, self.replica.refusal = ready, refusal
        self._on_change()
        return self.replacing


async def test_waiting_for_engines_ends_when_one_is_ready_or_none_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.supervisor.pool._GRACE_SECONDS", 0.1)
    pool = LostPool()
    assert not pool.report(ready=False), "nothing was lost before the first start"
    assert not pool.report(ready=True)
    assert pool.report(ready=False)
    assert not await pool.wait_until_loaded(0.01)
    early, late = _submit(pool, 2)
    waiting = asyncio.create_task(pool.wait_until_loaded(60))
    assert pool.report(ready=False, refusal="its files have changed")
    assert not await waiting
    for each in (early, late):
        with pytest.raises(EngineFailed, match="its files have changed"):
            await each.read_tokens(float("inf"))
    assert pool.refusal == "its files have changed"
    [later] = _submit(pool, 1)
    assert not await pool.wait_until_loaded(60), "at once"
    assert pool.report(ready=False, refusal="its files have changed")
    with pytest.raises(EngineFailed, match="its files have changed"):
        await later.read_tokens(float("inf"))
    assert not pool.report(ready=True)
    assert await pool.wait_until_loaded(60)


async def test_files_that_are_back_in_time_fail_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.supervisor.pool._GRACE_SECONDS", 0.1)
    pool = LostPool()
    pool.report(ready=True)
    for _ in range(2):
        pool.report(ready=False)
        [request] = _submit(pool, 1)
        waiting = asyncio.create_task(pool.wait_until_loaded(60))
        for _ in range(3):
            assert pool.report(ready=False, refusal="there is no config.json")
            await asyncio.sleep(0.01)
        assert not waiting.done()
        pool.report(ready=True)
        assert await waiting
    await asyncio.sleep(0.15)
    assert pool.load == 2
    request.close()
    await pool.stop()


async def test_a_pool_that_stops_gives_nothing_up_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.supervisor.pool._GRACE_SECONDS", 0.05)
    pool = LostPool()
    pool.report(ready=True)
    pool.report(ready=False, refusal="there is no config.json")
    await pool.stop()
    [waits_for_the_next_start] = _submit(pool, 1)
    await asyncio.sleep(0.1)
    assert pool.load == 1
    waits_for_the_next_start.close()
