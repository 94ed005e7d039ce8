"""The machine's clock is set, by hours, forward and back, while the server runs: nothing of it may depend on that."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.system.conftest import ENGINE_TIMEOUT, KEEP_ALIVE, Server, run_server
from tests.system.sentences import LONG_TEXT, SENTENCES
from tests.system.sse import REQUEST, read_events, stream, text_of

_LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)

pytestmark = pytest.mark.skipif(
    _LIBRARY is None, reason="SKIPPED: no libfaketime (Debian's faketime); a clock that jumps is not tested"
)

CAT = {"q": "I see a cat.", "source": "en", "target": "fr"}
JUMPS = ("+5h", "-9h", "+400d", "+0")
_LIMIT = 30
"""Of requests a minute: more than the tests of other things send in all."""
_STOPPED = "%Y-%m-%d %H:%M:%S"
"""A time that goes on, libfaketime calls by its distance."""


class Clocked(NamedTuple):
    """A server, and how to set the wall clock of all its processes at once."""

    server: Server
    set_clock: Callable[[str], None]


@pytest.fixture(scope="module")
def clocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clocked]:
    directory = tmp_path_factory.mktemp("clocked")
    clock = directory / "clock"

    def set_to(offset: str) -> None:
        new = directory / "clock.new"
        new.write_text(offset)
        new.replace(clock)  # never half of it

    set_to("+0")
    variables = {
        "LD_PRELOAD": str(_LIBRARY),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    constants = {KEEP_ALIVE: 0.05, ENGINE_TIMEOUT: 4.0}
    flags = ("--anonymous-requests-per-minute", str(_LIMIT))
    with run_server(directory / "log", *flags, environment=variables, constants=constants) as server:
        yield Clocked(server, set_to)


async def test_streams_deadlines_and_keep_alives_go_on(clocked: Clocked) -> None:
    server, set_clock = clocked
    text = " ".join(SENTENCES[:40])
    options = {"beam_size": 2, "timeout_seconds": 100}
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        expected = text_of(await stream(client, text, **options))
        [engine] = server.engine_pids()
        seen = []
        async with client.stream("POST", "/translate", json={"q": text, **REQUEST, **options}) as response:
            events = read_events(response)
            for jump in JUMPS:
                set_clock(jump)
                seen += [await anext(events) for _ in range(10)]
            seen += [event async for event in events]
        assert seen[-1].name == "done"
        assert text_of(seen) == expected
        for jump in JUMPS[2:]:
            set_clock(jump)
            answer = await client.post("/translate", json=CAT)
            assert answer.json() == {"translatedText": "Je vois un chat."}
            short = {**CAT, "q": LONG_TEXT, "timeout_seconds": 0.05}
            assert (await client.post("/translate", json=short)).status_code == 504
            os.kill(engine, signal.SIGSTOP)
            async with client.stream("POST", "/translate", json={**CAT, "stream": True}) as response:
                lines = response.aiter_lines()
                while await anext(lines) != ": keep-alive":
                    pass
                os.kill(engine, signal.SIGCONT)
                assert "event: done" in [line async for line in lines]
    days = {json.loads(line)["time"][:10] for line in server.log.read_text().splitlines()}
    assert len(days) >= 2, "the clock has not been set"
    assert server.engine_pids() == [engine]
    assert server.metric("dragoman_engine_restarts_total") == 0


async def test_an_engine_that_hangs_is_noticed_all_the_same(clocked: Clocked) -> None:
    server, set_clock = clocked
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        for restarts, jump in enumerate(("-9h", "+5h"), start=1):
            os.kill(server.wait_for_engine(), signal.SIGSTOP)
            running = asyncio.create_task(client.post("/translate", json=CAT))
            set_clock(jump)
            assert (await running).json() == {"translatedText": "Je vois un chat."}
            assert server.metric("dragoman_engine_restarts_total") == restarts


def test_limits_are_of_the_clock_that_was_set(clocked: Clocked) -> None:
    """The clock stands still, so no minute begins between two requests.

    After every jump a caller over its limit is refused, and served once the clock has reached the reported time.
    """
    server, set_clock = clocked
    with httpx.Client(base_url=server.url) as client:
        for jump in (timedelta(hours=2), timedelta(hours=-11), timedelta(days=300)):  # minutes without requests
            moment = datetime.now() + jump  # as libfaketime reads it, in the machine's own zone
            set_clock(f"{moment:{_STOPPED}}")
            answers = [client.get("/v2/usage") for _ in range(_LIMIT + 1)]
            assert [each.status_code for each in answers] == [200] * _LIMIT + [429]
            wait = int(answers[-1].headers["retry-after"])
            set_clock(f"{moment + timedelta(seconds=wait - 2):{_STOPPED}}")
            assert client.get("/v2/usage").status_code == 429
            set_clock(f"{moment + timedelta(seconds=wait):{_STOPPED}}")
            assert client.get("/v2/usage").status_code == 200
