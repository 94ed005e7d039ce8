"""Processes of the server that are killed or stopped, in every combination."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

import httpx

from loadtest.local_server import is_ready
from loadtest.sentences import LANGUAGES
from loadtest.soak.canaries import Broken
from loadtest.soak.site import ENGINES, SLOTS, Site
from loadtest.soak.wire import new_id

_REPLACEMENT_SECONDS: Final = 60.0


@asynccontextmanager
async def whole(site: Site) -> AsyncIterator[None]:
    """Wait until the server has all its processes; nothing else takes one inside of the context. Raises `Broken`."""
    async with site.surgery:
        deadline = time.monotonic() + _REPLACEMENT_SECONDS
        while (
            len((now := site.server.processes()).engines) != ENGINES
            or len(now.fork_servers) != 1
            or not _runs_its_program(now.fork_servers[0].pid)
        ):
            if time.monotonic() > deadline:
                raise Broken(f"{len(now.engines)} engines and {len(now.fork_servers)} fork servers before the fault")
            await asyncio.sleep(0.1)
        yield


class Loss(NamedTuple):
    """The processes that are lost at one moment, and how. `name` is the fault's."""

    name: str
    engines: int = 0
    fork_server: signal.Signals | None = None
    http: bool = False
    how: signal.Signals = signal.SIGKILL

    async def run(self, site: Site) -> None:
        """Lose the processes; return when there are as many ready engines as before."""
        async with whole(site):
            await self.happen(site, site.places.log.stat().st_size)
            site.count(self.name, "replaced")

    async def happen(self, site: Site, log_bytes: int) -> None:
        """Raises `Broken` if `log_bytes` into the log, the processes are not replaced."""
        server = site.server
        engines = site.rng.sample(server.engines(), self.engines)
        fork_servers = server.fork_servers() if self.fork_server is not None else []
        # First, or it would write down, or not, what happens to the others in the moment before its end.
        if self.http:
            site.supervisor.kill()
        for pids, how in ((fork_servers, self.fork_server or self.how), (engines, self.how)):
            for pid in pids:
                # It may end by itself in this very moment, and is lost then, too.
                with suppress(ProcessLookupError):
                    os.kill(pid, how)
        gone = [*engines, *([server.pid] if self.http else []), *fork_servers]
        if not self.http:
            site.deaths += len(engines)
        ready = ENGINES if self.http else len(engines)
        replacing = asyncio.create_task(replaced(site, self.name, gone, ready, log_bytes))
        # An engine that hangs is noticed when it is given work; canaries give it none where their sentences are cached.
        async with asyncio.TaskGroup() as group:
            group.create_task(_give_work(site))
            if (seconds := await site.tally.check(site.client, *site.alone[0])) is not None:
                site.answered_seconds.setdefault(self.name, []).append(seconds)
            site.replaced_seconds.setdefault(self.name, []).append(await replacing)


async def _give_work(site: Site) -> None:
    """Send sentences that nobody has sent before, enough for all engines; what becomes of them does not matter."""
    sentences = [f"I see {new_id()}." for _ in range(SLOTS)]
    with suppress(httpx.HTTPError):
        await site.client.post("/translate", json={"q": sentences, **LANGUAGES})


async def replaced(site: Site, fault: str, gone: list[int], ready: int, log_bytes: int) -> float:
    """Wait until the processes are gone and the log after `log_bytes` has so many engines that are ready.

    Returns the seconds that it took; raises `Broken`.
    """
    started = time.monotonic()
    deadline = started + _REPLACEMENT_SECONDS
    while any(map(_lives, gone)) or _ready_since(site.places.log, log_bytes) < ready or not await _answers(site):
        if time.monotonic() > deadline:
            raise Broken(f"{fault}: no replacement after {_REPLACEMENT_SECONDS:.0f} s")
        await asyncio.sleep(0.1)
    return time.monotonic() - started


async def _answers(site: Site) -> bool:
    try:
        return await is_ready(site.client)
    except httpx.TransportError:
        return False


def _runs_its_program(pid: int) -> bool:
    """Return False for a child that is still a copy of the HTTP process, which waits for it: stopped, it stops both."""
    try:
        return b"service.engine" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _lives(pid: int) -> bool:
    """Return True for a process that runs; False for one that has ended, waited for or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # before it is opened, or before it is read
        return False


def _ready_since(log: Path, start: int) -> int:
    with log.open("rb") as lines:
        lines.seek(start)
        return lines.read().count(b'"engine ready"')


def _combinations() -> list[Loss]:
    """Return a loss for each combination of all engines, the fork server and the HTTP process."""
    kinds = ("engines", "fork_server", "http")
    return [
        Loss(
            f"killed_{'_and_'.join(chosen)}",
            engines=ENGINES if "engines" in chosen else 0,
            fork_server=signal.SIGKILL if "fork_server" in chosen else None,
            http="http" in chosen,
        )
        for count in range(1, len(kinds) + 1)
        for chosen in combinations(kinds, count)
    ]


LOSSES: Final = (
    Loss("engine_killed", engines=1),
    Loss("engine_stopped", engines=1, how=signal.SIGSTOP),
    # Noticed when an engine is needed; the other engine survives.
    Loss("fork_server_stopped", engines=1, fork_server=signal.SIGSTOP),
    *_combinations(),
)
