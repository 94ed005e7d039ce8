"""Random faults for as long as wanted, while canaries check every token: `python -m loadtest.soak --help`.

The soak starts a server and translates each canary alone. Then come rounds: some seconds of faults, several at a time,
while canaries are sent without a pause, and then quiet, after which nothing may be left over. It prints JSON, and ends
with status 1 if a promise was broken.
"""

import asyncio
import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import httpx
import typer

from loadtest.local_server import Server, connect, run_server
from loadtest.soak.canaries import Broken, Tally, canaries
from loadtest.soak.faults import FAULTS, Site
from loadtest.soak.report import Limits, Reading, check_log, read, stop, summary

_CANARIES: Final = 24
_LANES: Final = 4
_AT_ONCE: Final = 3
_PAUSE_SECONDS: Final = 0.5
_QUIET_SECONDS: Final = 30.0
_ENGINES: Final = 2
_SLOTS: Final = 8
_WAITING: Final = 16
_RECEIVE_TIMEOUT_SECONDS: Final = 5.0
_SEND_TIMEOUT_SECONDS: Final = 3.0
_LAZY: Final = ("/", "/docs", "/openapi.json", "/languages", "/v2/languages", "/frontend/settings")
_FLAGS: Final = {
    "--replicas": _ENGINES,
    "--slots": _SLOTS,
    "--max-waiting": _WAITING,
    "--max-characters": 5_000_000,
    "--max-body-bytes": 9_000_000,
    "--receive-timeout-seconds": _RECEIVE_TIMEOUT_SECONDS,
    "--send-timeout-seconds": _SEND_TIMEOUT_SECONDS,
}


class Plan(NamedTuple):
    """The schedule: rounds of faults, drawn from a shuffled deck of their names.

    The first round has every fault once, however long that takes: what a fault leaves at its first time is no growth.
    """

    rounds: int
    round_seconds: float
    faults: Sequence[str]
    rng: random.Random


def main(  # noqa: PLR0913  each is an option of the command
    seconds: Annotated[
        float,
        typer.Option(min=1, help="Seconds of faults in all rounds together; the first may take longer."),
    ] = 60,
    round_seconds: Annotated[
        float, typer.Option(min=1, help="Seconds of faults in a round; there are at least two rounds.")
    ] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the random faults.")] = 1,
    only: Annotated[str, typer.Option(help="Comma-separated faults, instead of all.")] = "",
    growth_limit: Annotated[
        float, typer.Option(help="Allowed growth of the HTTP process's memory after the first round, in per cent.")
    ] = 3.0,
    engine_growth_limit: Annotated[
        float, typer.Option(help="Allowed growth of the median engine's and the fork server's memory, in per cent.")
    ] = 10.0,
    recovery_limit: Annotated[float, typer.Option(help="Allowed seconds to replace lost engines.")] = 10.0,
    output: Annotated[Path | None, typer.Option(help="Also write the JSON to this file.")] = None,
) -> None:
    """Let faults loose on a server while canaries check every token."""
    names = only.split(",") if only else list(FAULTS)
    if unknown := set(names) - set(FAULTS):
        raise typer.BadParameter(
            f"--only: no fault is called {', '.join(sorted(unknown))}; there are {', '.join(FAULTS)}"
        )
    rounds = max(2, round(seconds / round_seconds))
    plan = Plan(rounds, seconds / rounds, names, random.Random(seed))
    flags = [str(part) for pair in _FLAGS.items() for part in pair]
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "server.log"
        with run_server(flags, log) as server:
            site, readings = asyncio.run(soak(server, log, plan))
            ended = stop(server, site)
        check_log(log, site, readings[-1].answered)
    limits = Limits(growth_limit, engine_growth_limit, recovery_limit)
    text = json.dumps(summary(site, readings, ended, limits), indent=1)
    typer.echo(text)
    if output is not None:
        output.write_text(text + "\n", encoding="utf-8")
    if site.problems:
        raise typer.Exit(1)


async def soak(server: Server, log: Path, plan: Plan) -> tuple[Site, list[Reading]]:
    """Run all rounds; return a reading before the first and one after each."""
    async with connect(server) as client:
        tally = Tally()
        await _warm_up(client)
        alone = [(bird, (await tally.say(client, bird)).said) for bird in canaries(_CANARIES)]
        capacity = _ENGINES * _SLOTS + _WAITING
        site = Site(server, client, plan.rng, log, _ENGINES, capacity, alone, tally)
        readings = [await _quiet(site, None)]
        deck: list[str] = []
        for number in range(plan.rounds):
            await _round(site, plan, deck, 0 if number else len(plan.faults))
            readings.append(await _quiet(site, readings[0]))
        return site, readings


async def _warm_up(client: httpx.AsyncClient) -> None:
    """Allocate what a server allocates at first use, so that it does not count as growth."""
    for path in _LAZY:
        await client.get(path)
    await client.post("/detect", json={"q": "I am a cat."})


async def _round(site: Site, plan: Plan, deck: list[str], least: int) -> None:
    over = asyncio.Event()
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def lane() -> None:
        while not over.is_set():
            await site.tally.ask(site.client, *site.rng.choice(site.alone))

    async def fault(name: str) -> None:
        try:
            await FAULTS[name](site)
        except (Broken, OSError, httpx.HTTPError) as error:
            site.problems.append(f"{name}: {type(error).__name__} {error}")
        finally:
            at_once.release()

    lanes = [asyncio.create_task(lane()) for _ in range(_LANES)]
    faults: list[asyncio.Task[None]] = []
    deadline = time.monotonic() + plan.round_seconds
    while len(faults) < least or time.monotonic() < deadline:
        if not deck:
            deck += plan.rng.sample(plan.faults, len(plan.faults))
        await at_once.acquire()
        faults.append(asyncio.create_task(fault(deck.pop())))
        await asyncio.sleep(plan.rng.expovariate(1 / _PAUSE_SECONDS))
    await asyncio.gather(*faults)
    # Only now, since a hung engine is noticed when there is work for it.
    over.set()
    await asyncio.gather(*lanes)


async def _quiet(site: Site, before: Reading | None) -> Reading:
    """Wait until nothing is left over; what is left after half a minute is a leak."""
    deadline = time.monotonic() + _QUIET_SECONDS
    while True:
        reading = await read(site)
        left = reading.left(before or reading, site.engines)
        if not left or time.monotonic() > deadline:
            site.problems += [f"after {site.tally.asked} canaries: {each}" for each in left]
            return reading
        await asyncio.sleep(0.2)


if __name__ == "__main__":
    typer.run(main)
