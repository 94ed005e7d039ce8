"""The schedule: rounds of faults while canaries are sent, and quiet between them."""

import asyncio
import sys
import time
from typing import Final

import httpx

from loadtest.local_server import connect
from loadtest.soak.canaries import Broken, Tally, canaries
from loadtest.soak.faults import FAULTS, KILL_HTTP
from loadtest.soak.report import Reading, progress, read
from loadtest.soak.site import Places, Plan, Site
from loadtest.soak.supervisor import Supervisor

_CANARIES: Final = 24
_LANES: Final = 4
"""Canaries at the same time."""
_AT_ONCE: Final = 3
_PAUSE_SECONDS: Final = 0.5
_QUIET_SECONDS: Final = 30.0
_SHARE_WITH_HTTP: Final = 4
_LAZY: Final = ("/", "/docs", "/openapi.json", "/languages", "/v2/languages", "/frontend/settings")


async def soak(supervisor: Supervisor, places: Places, plan: Plan, tally: Tally) -> tuple[Site, list[Reading]]:
    """Run all rounds; return a reading before the first and one after each."""
    async with connect(supervisor.server) as client:
        await _warm_up(client)
        tally.alone += [(bird, await tally.translate(client, bird)) for bird in canaries(_CANARIES)]
        site = Site(supervisor, client, places, tally)
        readings: list[Reading] = []
        supervising = asyncio.create_task(supervisor.supervise())
        try:
            readings.append(await _quiet(site, None))
            for number in range(plan.rounds):
                await _round(site, plan, number)
                readings.append(await _quiet(site, readings[0]))
                print(progress(site, readings, plan.rounds), file=sys.stderr, flush=True)
        except httpx.HTTPError as error:
            # What was seen before is reported, too.
            site.problems.append(f"round {len(readings)}: no answer to /metrics: {type(error).__name__}")
        finally:
            supervising.cancel()
            await asyncio.gather(supervising, return_exceptions=True)
        return site, readings


async def _warm_up(client: httpx.AsyncClient) -> None:
    """Allocate what a server allocates at first use, so that it does not count as growth."""
    for path in _LAZY:
        await client.get(path)
    await client.post("/detect", json={"q": "I see a cat."})


async def _round(site: Site, plan: Plan, number: int) -> None:
    over = asyncio.Event()
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def lane() -> None:
        while not over.is_set():
            await site.tally.check(site.client)

    async def fault(name: str) -> None:
        try:
            await FAULTS[name](site)
        except* (Broken, OSError, httpx.HTTPError) as group:
            site.problems += [f"{name}: {type(error).__name__} {error}" for error in _leaves(group)]
        finally:
            at_once.release()

    lanes = [asyncio.create_task(lane()) for _ in range(_LANES)]
    running: list[asyncio.Task[None]] = []
    names = plan.faults
    if plan.is_long and number >= plan.rounds / _SHARE_WITH_HTTP:
        names = [name for name in names if name not in KILL_HTTP]
    least = 0 if number else len(names)
    deck: list[str] = []
    deadline = time.monotonic() + plan.round_seconds
    while len(running) < least or time.monotonic() < deadline:
        if not deck:
            deck += site.rng.sample(names, len(names))
        await at_once.acquire()
        running.append(asyncio.create_task(fault(deck.pop())))
        await asyncio.sleep(site.rng.expovariate(1 / _PAUSE_SECONDS))
    await asyncio.gather(*running)
    # Only now, since a hung engine is noticed when there is work for it.
    over.set()
    await asyncio.gather(*lanes)


def _leaves(error: BaseException) -> list[BaseException]:
    """Return the errors of a group, and of the groups in it."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for each in error.exceptions for leaf in _leaves(each)]


async def _quiet(site: Site, before: Reading | None) -> Reading:
    """Wait until nothing is left over; what is left after half a minute is a leak."""
    deadline = time.monotonic() + _QUIET_SECONDS
    while True:
        reading = await read(site)
        left = reading.left(before or reading)
        if not left or time.monotonic() > deadline:
            site.problems += [f"after {site.tally.asked} canaries: {each}" for each in left]
            return reading
        await asyncio.sleep(0.2)
