"""The server's state before, between and after the rounds, and the verdict."""

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from loadtest.local_server import read_metrics
from loadtest.soak.checks import ENDPOINT
from loadtest.soak.leaks import Slope, slope
from loadtest.soak.site import ENGINES, Plan, Site

_END_SECONDS: Final = 10.0
_SETTLED_SECONDS: Final = 1200.0
"""The first seconds of an HTTP process, which a soak of hours leaves out: in them its memory grows to what it needs."""


class Reading(NamedTuple):
    """The state of an idle server."""

    at_seconds: float
    life: int
    """Number of restarts of the HTTP process."""
    occupied: int
    """Slots in use, and sentences that run or wait."""
    descriptors: int
    tasks: int
    http_megabytes: float
    fork_server_megabytes: list[float]
    engine_megabytes: list[float]
    zombies: int
    orphans: int
    """Processes of an HTTP process that was killed."""
    answered: int
    """Requests of this life, whatever their outcome."""

    def left(self, before: "Reading") -> list[str]:
        """Return, in words, what should not be there any more."""
        engines, fork_servers = len(self.engine_megabytes), len(self.fork_server_megabytes)
        found = {
            f"{self.occupied} slots or sentences are left": self.occupied > 0,
            f"{self.descriptors} descriptors are open, {before.descriptors} were": self.descriptors
            > before.descriptors,
            f"{self.tasks} tasks, {before.tasks} were": self.tasks > before.tasks,
            f"{engines} engine processes instead of {ENGINES}": engines != ENGINES,
            f"{fork_servers} fork servers instead of one": fork_servers != 1,
            f"{self.zombies} processes have ended, and nobody has waited for them": self.zombies > 0,
            f"{self.orphans} processes outlive a killed HTTP process": self.orphans > 0,
        }
        return [words for words, is_left in found.items() if is_left]


async def read(site: Site) -> Reading:
    """Read the server's state now."""
    total = (await read_metrics(site.client)).total
    processes = site.server.processes()
    return Reading(
        round(time.monotonic() - site.started, 1),
        len(site.supervisor.ends),
        int(sum(total(f"dragoman_{name}") for name in ("slots_used", "requests_running", "requests_waiting"))),
        int(total("process_open_fds")),
        int(total("dragoman_tasks")),
        round(total("process_resident_memory_bytes") / 1e6, 1),
        [round(each.resident_megabytes, 1) for each in processes.fork_servers],
        [round(each.resident_megabytes, 1) for each in processes.engines],
        len(processes.zombies),
        site.supervisor.orphans(),
        int(total("dragoman_requests_total", endpoint=ENDPOINT)),
    )


def progress(site: Site, readings: Sequence[Reading], rounds: int) -> str:
    """Return one line about the rounds so far; a soak that is cut off has left these lines."""
    tally, last = site.tally, readings[-1]
    found = [*site.problems, *site.supervisor.problems, *tally.problems]
    return (
        f"round {len(readings) - 1} of {rounds} after {last.at_seconds:.0f} s: {tally.identical} of {tally.asked} "
        f"canaries identical, {len(site.supervisor.ends)} HTTP processes and {site.deaths} engines lost, "
        f"HTTP process {last.http_megabytes:.0f} MB, {len(found)} problems{''.join(f'; {each}' for each in found)}"
    )


def stop(site: Site) -> dict[str, Any]:
    """Send SIGTERM to the idle server: it ends at once, and its other processes with it."""
    server = site.server
    processes = server.processes()
    pids = [each.pid for each in (*processes.fork_servers, *processes.engines)]
    started = time.monotonic()
    status = server.stop()
    seconds = time.monotonic() - started
    # An engine whose parent was lost before is nobody's child: it ends by itself, at the end of its channel.
    while (
        left := [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    ) and time.monotonic() < started + _END_SECONDS:
        time.sleep(0.1)
    if status:
        site.problems.append(f"the server ended with status {status}")
    if left:
        site.problems.append(f"{len(left)} processes outlive the server")
    return {"status": status, "seconds": round(seconds, 2), "processes_left": len(left)}


def summary(site: Site, readings: Sequence[Reading], plan: Plan) -> dict[str, Any]:
    """Return everything as JSON; the last problems are found here."""
    slopes = _slopes(readings[1:], _SETTLED_SECONDS if plan.is_long else 0.0)
    for what, found in slopes.items():
        limit = plan.growth_percent
        if found is None and plan.is_long:
            site.problems.append(f"{what}: too few readings for a slope")
        elif found is not None and (found.high if plan.is_long else found.low) > limit:
            site.problems.append(
                f"{what}: memory grows by {found.per_hour:.2f} % an hour ({found.low:.2f} to {found.high:.2f}), "
                f"the limit is {limit} %"
            )
    for fault, seconds in site.replaced_seconds.items():
        if max(seconds) > plan.recovery_seconds:
            site.problems.append(
                f"{fault}: engines were replaced after {max(seconds):.1f} s, the limit is {plan.recovery_seconds} s"
            )
    tally = site.tally
    site.problems += [*site.supervisor.problems, *tally.problems]
    return {
        "verdict": "kept" if not site.problems else "broken",
        "canaries": {
            "begun": tally.asked,
            "identical": tally.identical,
            "resumed_connections": tally.resumed,
            "refused_and_asked_again": tally.refused,
            "longest_loss_seconds": round(tally.longest_loss_seconds, 2),
        },
        "faults": {name: dict(outcomes) for name, outcomes in sorted(site.outcomes.items())},
        "http_processes_ended": len(site.supervisor.ends),
        "engines_lost": site.deaths,
        "replaced_seconds": {
            name: {"median": round(median(values), 3), "longest": round(max(values), 3)}
            for name, values in site.replaced_seconds.items()
        },
        "memory_percent_per_hour": {what: found and found._asdict() for what, found in slopes.items()},
        "readings": [each._asdict() for each in readings],
        "problems": site.problems,
    }


def _slopes(readings: Sequence[Reading], settled_seconds: float) -> dict[str, Slope | None]:
    """Return the growth of each kind of process; those that faults replace all the time count as one.

    The HTTP process is the last one, from `settled_seconds` of its life on. A fork server that has just been started,
    and has not loaded the model yet, is left out.
    """
    last = [each for each in readings if each.life == readings[-1].life]
    settled = [each for each in last if each.at_seconds >= last[0].at_seconds + settled_seconds]
    fork_servers = [(each.at_seconds, each.fork_server_megabytes[0]) for each in readings if each.fork_server_megabytes]
    loaded = median(value for _, value in fork_servers) / 2 if fork_servers else 0.0
    return {
        "http": slope([(each.at_seconds, each.http_megabytes) for each in settled]),
        "engine": slope([(each.at_seconds, median(each.engine_megabytes or [0.0])) for each in readings]),
        "fork_server": slope([each for each in fork_servers if each[1] >= loaded]),
    }
