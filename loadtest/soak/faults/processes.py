"""Processes of the server that are killed or stopped, in every combination, and files that they need."""

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
import psutil

from loadtest.local_server import is_ready
from loadtest.sentences import LANGUAGES
from loadtest.soak.canaries import Broken
from loadtest.soak.site import ENGINES, SLOTS, Site, new_id

_REPLACEMENT_SECONDS: Final = 60.0
_WITHOUT_MODEL_SECONDS: Final = 3.0


@asynccontextmanager
async def whole(site: Site) -> AsyncIterator[int]:
    """Wait until the server has all its processes; nothing else takes one inside of the context. Raises `Broken`.

    Yields the size of the log, behind which new engines report.
    """
    async with site.surgery:
        deadline = time.monotonic() + _REPLACEMENT_SECONDS
        while (
            len((now := site.server.processes()).engines) != ENGINES
            or len(now.fork_servers) != 1
            or len(now.zygotes) != 1
        ):
            if time.monotonic() > deadline:
                raise Broken(f"{len(now.engines)} engines and {len(now.fork_servers)} fork servers before the fault")
            await asyncio.sleep(0.1)
        yield site.places.log.stat().st_size


class Loss(NamedTuple):
    """The processes that are lost at one moment, and how. `name` is the fault's."""

    name: str
    engines: int = 0
    fork_server: signal.Signals | None = None
    http: bool = False
    how: signal.Signals = signal.SIGKILL

    async def run(self, site: Site) -> None:
        """Lose the processes; return when there are as many ready engines as before."""
        async with whole(site) as log_bytes:
            await self.happen(site, log_bytes)

    async def happen(self, site: Site, log_bytes: int) -> None:
        """Raises `Broken` if `log_bytes` into the log, the processes are not replaced."""
        server = site.server
        engines = site.rng.sample(server.engines(), self.engines)
        fork_servers = server.forking() if self.fork_server is not None else []
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
        started = time.monotonic()
        # An engine that hangs is noticed when it is given work; canaries give it none where their sentences are cached.
        async with asyncio.TaskGroup() as group:
            group.create_task(_give_work(site))
            await _replaced(site, self.name, gone, ENGINES if self.http else len(engines), log_bytes)
            site.replaced_seconds.setdefault(self.name, []).append(time.monotonic() - started)
        site.count(self.name, "replaced")


async def _give_work(site: Site) -> None:
    """Send sentences that nobody has sent before, enough for all engines; what becomes of them does not matter."""
    with suppress(httpx.HTTPError):
        await site.client.post("/translate", json={"q": [f"I see {new_id()}." for _ in range(SLOTS)], **LANGUAGES})


async def _replaced(site: Site, fault: str, gone: list[int], ready: int, log_bytes: int) -> None:
    """Wait until the processes are gone, and the log after `log_bytes` has so many engines that are ready.

    Raises `Broken`.
    """
    deadline = time.monotonic() + _REPLACEMENT_SECONDS
    while any(map(_lives, gone)) or _ready_since(site.places.log, log_bytes) < ready or not await _answers(site):
        if time.monotonic() > deadline:
            raise Broken(f"{fault}: no replacement after {_REPLACEMENT_SECONDS:.0f} s")
        await asyncio.sleep(0.1)


async def _answers(site: Site) -> bool:
    try:
        return await is_ready(site.client)
    except httpx.TransportError:
        return False


def _lives(pid: int) -> bool:
    """Return True for a process that runs; False for one that has ended, waited for or not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _ready_since(log: Path, start: int) -> int:
    with log.open("rb") as lines:
        lines.seek(start)
        return lines.read().count(b'"engine ready"')


_KINDS: Final = ("engines", "fork_server", "http")
LOSSES: Final = (
    Loss("engine_killed", engines=1),
    Loss("engine_stopped", engines=1, how=signal.SIGSTOP),
    # Noticed when an engine is needed; the other engine survives.
    Loss("fork_server_stopped", engines=1, fork_server=signal.SIGSTOP),
    *(
        Loss(
            f"killed_{'_and_'.join(chosen)}",
            engines=ENGINES if "engines" in chosen else 0,
            fork_server=signal.SIGKILL if "fork_server" in chosen else None,
            http="http" in chosen,
        )
        for count in range(1, len(_KINDS) + 1)
        for chosen in combinations(_KINDS, count)
    ),
)


async def checkpoint_deleted(site: Site) -> None:
    """Delete the model, and with it all processes that have it in memory; then put it back."""
    aside = site.places.model.with_name("aside")

    async def put_back() -> None:
        await asyncio.sleep(_WITHOUT_MODEL_SECONDS)
        aside.rename(site.places.model)

    async with whole(site) as log_bytes, asyncio.TaskGroup() as group:
        site.places.model.rename(aside)
        group.create_task(put_back())
        await Loss("checkpoint_deleted", ENGINES, signal.SIGKILL).happen(site, log_bytes)
