"""A server that runs out of memory: a step that gets none, an engine that the kernel kills for it."""

import asyncio
import resource
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.system.conftest import Server, StartServer
from tests.system.memory_group import MemoryGroup, memory_group
from tests.system.sentences import SENTENCES

pytestmark = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of a running process are Linux's")

CAT = {"q": "I see a cat.", "source": "en", "target": "fr"}
# An engine of so many slots, with as many beams in them, takes memory that it did not have before, and at once.
ROOMY = ("--slots", "200", "--max-waiting", "1000")
LARGE = [{**CAT, "q": SENTENCES[number : number + 4], "beam_size": 16} for number in range(0, 80, 4)]


@pytest.fixture
def group() -> Iterator[MemoryGroup]:
    with memory_group() as made:
        yield made


async def _ask(client: httpx.AsyncClient) -> list[httpx.Response]:
    return await asyncio.gather(*(client.post("/translate", json=body) for body in LARGE))


def _data(pid: int) -> int:
    """Return a process's writable bytes; unlike its address space, without what the C library only reserves."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["VmData"].split()[0]) << 10


async def test_a_step_without_memory_fails_its_own_requests(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process's data cannot grow: every request has an outcome, and the next ones are served."""
    # Else the C library may have enough left of what loading took.
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")
    with start_server(*ROOMY) as server:
        [engine] = server.engine_pids()
        limits = resource.prlimit(engine, resource.RLIMIT_DATA)
        resource.prlimit(engine, resource.RLIMIT_DATA, (_data(engine), limits[1]))
        async with server.client() as client:
            answers = await _ask(client)
            failed = [answer for answer in answers if answer.status_code != 200]
            assert {(answer.status_code, answer.json()["code"]) for answer in failed} <= {(500, "engine_failed")}
            assert failed or server.metric("dragoman_engine_restarts_total"), "there was memory enough"
            if engine in server.engine_pids():
                resource.prlimit(engine, resource.RLIMIT_DATA, limits)
            await asyncio.to_thread(server.wait_until_ready)
            assert (await client.post("/translate", json=CAT)).json() == {"translatedText": "Je vois un chat."}
        server.wait_for_metric("dragoman_slots_used", 0)


async def test_an_engine_that_the_kernel_kills_for_memory_costs_nobody_an_answer(
    start_server: StartServer, group: MemoryGroup
) -> None:
    """Another, with memory, takes over what it had; only requests in between are refused."""
    with start_server(*ROOMY) as server:
        async with server.client() as client:
            [engine] = server.engine_pids()
            group.limit(8 << 20)
            group.take(engine)  # alone: of several, the kernel chooses
            answers = await _ask(client)
            assert group.kills == 1
            assert server.metric("dragoman_engine_restarts_total") == 1
            assert server.engine_pids() != [engine]
            expected = [answer.json() for answer in await _ask(client)]
        received = [(answer.status_code, answer.json()) for answer in answers]
        survived = [each for each in zip(received, expected, strict=True) if each[0][0] == 200]
        assert survived, "whose work the engine had"
        assert all(answer == (200, whole) for answer, whole in survived)
        assert {(status, answer.get("code")) for status, answer in received} <= {(200, None), (503, "not_ready")}
        server.wait_for_metric("dragoman_slots_used", 0)


def test_the_kernel_finds_an_engine_first_and_the_http_process_last(server: Server) -> None:
    pids = [*server.engine_pids(), *server.fork_servers(), *server.zygotes(), server.process.pid]
    scores = [int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in pids]
    # A server that has a high score itself can offer nobody before it.
    assert scores[0] > scores[1] > scores[2] > scores[3] or scores[3] > 400
