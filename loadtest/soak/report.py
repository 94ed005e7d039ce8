"""The server's state before, between and after the rounds, and the promises that it breaks."""

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from loadtest.local_server import Server, read_metrics
from loadtest.soak.faults import Site

_ENDPOINT = "/translate"
_END_SECONDS: Final = 10.0
_EXPECTED_ERRORS: Final = frozenset(
    {
        "engine process ended, starting another",
        "the engine has hung",
        "the fork server has died, starting another",
        "the fork server does not answer",
    }
)
"""The server's log messages about processes that were killed or stopped."""
_TRACEBACK: Final = "Traceback (most recent call last)"
_TRACEBACK_LINES: Final = 30


class Limits(NamedTuple):
    """Limits; a promise is broken when one is exceeded."""

    growth_percent: float
    """Growth of the HTTP process's memory after the first round."""
    engine_growth_percent: float
    """Growth of the median engine's memory, and of the fork server's."""
    recovery_seconds: float
    """Seconds from an engine's loss until there are as many engines as before."""


class Reading(NamedTuple):
    """The state of an idle server."""

    at_seconds: float
    occupied: int
    """Slots in use, and sentences that run or wait."""
    descriptors: int
    tasks: int
    http_megabytes: float
    fork_server_megabytes: list[float]
    engine_megabytes: list[float]
    zombies: int
    deaths: int
    answered: int
    """Requests, whatever their outcome."""

    def left(self, before: "Reading", engines: int) -> list[str]:
        """Return, in words, what should not be there any more."""
        found = []
        if self.occupied:
            found.append(f"{self.occupied} slots or sentences are left")
        if self.descriptors > before.descriptors:
            found.append(f"{self.descriptors} descriptors are open, {before.descriptors} were")
        if self.tasks > before.tasks:
            found.append(f"{self.tasks} tasks, {before.tasks} were")
        if len(self.engine_megabytes) != engines:
            found.append(f"{len(self.engine_megabytes)} engine processes instead of {engines}")
        if len(self.fork_server_megabytes) != 1:
            found.append(f"{len(self.fork_server_megabytes)} fork servers instead of one")
        if self.zombies:
            found.append(f"{self.zombies} processes have ended, and nobody has waited for them")
        return found


async def read(site: Site) -> Reading:
    """Read the server's state now."""
    total = (await read_metrics(site.client)).total
    processes = site.server.processes()
    return Reading(
        round(time.monotonic() - site.started, 1),
        int(sum(total(f"dragoman_{name}") for name in ("slots_used", "requests_running", "requests_waiting"))),
        int(total("process_open_fds")),
        int(total("dragoman_tasks")),
        round(total("process_resident_memory_bytes") / 1e6, 1),
        [round(each.resident_megabytes, 1) for each in processes.fork_servers],
        [round(each.resident_megabytes, 1) for each in processes.engines],
        len(processes.zombies),
        int(total("dragoman_engine_restarts_total")),
        int(total("dragoman_requests_total", endpoint=_ENDPOINT)),
    )


def stop(server: Server, site: Site) -> dict[str, Any]:
    """Send SIGTERM to the idle server: it ends at once, and its other processes with it."""
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


def check_log(log: Path, site: Site, answered: int) -> None:
    """Check that every request has one line and its outcome in the log, none has two, and nothing failed inside.

    `answered` is how many the server has counted: also of those whose clients did not wait for their outcome.
    """
    text = log.read_text(encoding="utf-8", errors="replace").splitlines()
    lines = [json.loads(line) for line in text if line.startswith("{")]
    requests = [line for line in lines if line["message"] == "request" and line["route"] == _ENDPOINT]
    if len(requests) != answered:
        site.problems.append(f"the log has {len(requests)} requests, {answered} were counted")
    times = Counter(line["request_id"] for line in requests)
    outcome = {line["request_id"]: line["outcome"] for line in requests}
    if twice := [each for each, count in times.items() if count > 1]:
        site.problems.append(f"{len(twice)} requests have two outcomes: {twice[:3]}")
    for request_id, expected in {**dict.fromkeys(site.tally.ids, "ok"), **site.answered}.items():
        if outcome.get(request_id) != expected:
            site.problems.append(
                f"request {request_id} was answered {expected}, its log says {outcome.get(request_id)}"
            )
    for number, line in enumerate(text):
        # A process that dies of one does not log it.
        if line.startswith(_TRACEBACK):
            site.problems.append("\n".join(["log:", *text[number : number + _TRACEBACK_LINES]]))
    for line in lines:
        is_error = line["level"] in ("ERROR", "CRITICAL") and line["message"] not in _EXPECTED_ERRORS
        if is_error or _TRACEBACK in line.get("exc_info", ""):
            site.problems.append(f"log: {json.dumps(line)[:2000]}")
        elif line["message"] == "draining" and line["requests"]:
            site.problems.append(f"{line['requests']} requests were left at the end")


def summary(site: Site, readings: Sequence[Reading], ended: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """Return everything as JSON; the last problems are found here."""
    first, last = readings[1], readings[-1]
    growth = _growth([first.http_megabytes], [last.http_megabytes])
    engine_growth = _growth(first.engine_megabytes, last.engine_megabytes)
    fork_server_growth = _growth(first.fork_server_megabytes, last.fork_server_megabytes)
    for what, value, limit in (
        ("memory grew by", growth, limits.growth_percent),
        ("an engine's memory grew by", engine_growth, limits.engine_growth_percent),
        ("the fork server's memory grew by", fork_server_growth, limits.engine_growth_percent),
    ):
        if value > limit:
            site.problems.append(f"{what} {value:.1f}% after the first round, the limit is {limit}%")
    for fault, seconds in site.replaced_seconds.items():
        if (longest := max(seconds, default=0.0)) > limits.recovery_seconds:
            site.problems.append(
                f"{fault}: engines were replaced after {longest:.1f} s, the limit is {limits.recovery_seconds} s"
            )
    if last.deaths != site.deaths:
        site.problems.append(f"{last.deaths} engines died, {site.deaths} were killed or stopped")
    site.problems += site.tally.problems
    return {
        "canaries": {
            "asked": site.tally.asked,
            "identical": site.tally.identical,
            "refused_and_asked_again": site.tally.refused,
            "longest_pause_seconds": round(site.tally.longest_pause_seconds, 2),
        },
        "faults": {name: dict(outcomes) for name, outcomes in sorted(site.outcomes.items())},
        "answered_requests": len(site.tally.ids) + len(site.answered),
        "replaced_seconds": {name: _spread(values) for name, values in site.replaced_seconds.items()},
        "answered_seconds": {name: _spread(values) for name, values in site.answered_seconds.items()},
        "refusal_seconds": _spread(site.refusal_seconds),
        "memory_growth_percent": round(growth, 2),
        "engine_memory_growth_percent": round(engine_growth, 2),
        "fork_server_memory_growth_percent": round(fork_server_growth, 2),
        "readings": [each._asdict() for each in readings],
        "end": ended,
        "load_average": os.getloadavg()[0],
        "problems": site.problems,
    }


def _growth(before: Sequence[float], after: Sequence[float]) -> float:
    """Return the median's growth in per cent; a server without processes is a problem of its own."""
    return 100 * (median(after) / median(before) - 1) if before and after else 0.0


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    return {"median": round(median(values), 3), "longest": round(max(values), 3)} if values else None
