"""Random faults for as long as wanted, while canaries check every token: `python -m loadtest.soak --help`.

The soak starts a server under a supervisor and translates each canary alone. Then come rounds: some seconds of faults,
several at a time, while canaries are sent without a pause and resumed if they break off, and then quiet, after which
nothing may be left over. It prints a line after each round and JSON at the end, and ends with status 1 if a promise was
broken.
"""

import asyncio
import json
import random
import shutil
import signal
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from loadtest.soak.canaries import Tally
from loadtest.soak.checks import check_charges, check_log
from loadtest.soak.faults import FAULTS
from loadtest.soak.report import stop, summary
from loadtest.soak.rounds import soak
from loadtest.soak.site import CLIENT_TIMEOUT_SECONDS, ENGINES, SLOTS, WAITING, Places, Plan
from loadtest.soak.supervisor import supervisor
from service.access.key_store import KeyLimits, KeyStore
from service.settings import EMBEDDED_MODEL

_HOUR: Final = 3600.0
_FLAGS: Final = {
    "--replicas": ENGINES,
    "--slots": SLOTS,
    "--max-waiting": WAITING,
    "--max-characters": 5_000_000,
    "--client-timeout-seconds": CLIENT_TIMEOUT_SECONDS,
}


def main(  # noqa: PLR0913  each is an option of the command
    seconds: Annotated[
        float,
        typer.Option(
            min=1,
            help="Seconds of faults in all rounds together; the first may take longer. From 3600 on, memory must be "
            "shown not to grow; so that it can be measured, the HTTP process is killed in the first quarter only.",
        ),
    ] = 60,
    round_seconds: Annotated[
        float, typer.Option(min=1, help="Seconds of faults in a round; there are at least two rounds.")
    ] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the random faults.")] = 1,
    only: Annotated[str, typer.Option(help="Comma-separated faults, instead of all.")] = "",
    growth_limit: Annotated[
        float, typer.Option(help="Allowed growth of a process's memory, in per cent an hour.")
    ] = 0.5,
    recovery_limit: Annotated[float, typer.Option(help="Allowed seconds to replace lost processes.")] = 10.0,
    output: Annotated[Path | None, typer.Option(help="Also write the JSON to this file.")] = None,
    server_log: Annotated[Path | None, typer.Option(help="Keep the server's log in this file.")] = None,
) -> None:
    """Let faults loose on a server while canaries check every token."""
    names = only.split(",") if only else list(FAULTS)
    if unknown := set(names) - set(FAULTS):
        raise typer.BadParameter(
            f"--only: no fault is called {', '.join(sorted(unknown))}; there are {', '.join(FAULTS)}"
        )
    rounds = max(2, round(seconds / round_seconds))
    plan = Plan(rounds, seconds / rounds, names, seconds >= _HOUR, growth_limit, recovery_limit)
    # Without it, the server would outlive a soak that is ended.
    signal.signal(signal.SIGTERM, _end)
    with tempfile.TemporaryDirectory() as directory:
        places = Places(Path(directory))
        try:
            seen = _run(places, plan, random.Random(seed))
        finally:
            if server_log is not None and places.log.exists():
                shutil.copyfile(places.log, server_log)
    text = json.dumps(seen, indent=1)
    typer.echo(text)
    if output is not None:
        output.write_text(text + "\n", encoding="utf-8")
    if seen["problems"]:
        raise typer.Exit(1)


def _end(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _run(places: Places, plan: Plan, rng: random.Random) -> dict[str, Any]:
    """Soak a server of its own, which has ended afterwards."""
    shutil.copytree(EMBEDDED_MODEL, places.model)
    with closing(KeyStore(places.keys, create=True)) as keys:
        key = keys.add("canaries", KeyLimits())
    flags = [str(part) for pair in _FLAGS.items() for part in pair]
    flags += ["--model", str(places.model), "--keys", str(places.keys), "--anonymous"]
    with supervisor(flags, places.log) as supervised:
        site, readings = asyncio.run(soak(supervised, places, plan, Tally(key, rng)))
        ended = stop(site)
    check_log(places.log, site, readings[-1].answered)
    characters = check_charges(site)
    return summary(site, readings, plan) | {"characters": characters, "end": ended}


if __name__ == "__main__":
    typer.run(main)
