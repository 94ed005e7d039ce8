"""The server's state before, between and after the rounds, and the promises that it breaks."""

import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from loadtest.local_server import read_metrics
from loadtest.soak.leaks import Sample, Slope, slope
from loadtest.soak.site import ENGINES, Site

_ENDPOINT = "/translate"
_END_SECONDS: Final = 10.0
_DEATH: Final = "engine process ended, starting another"
_EXPECTED_ERRORS: Final = frozenset(
    {
        _DEATH,
        "the engine has hung",
        "the fork server has died, starting another",
        "the fork server does not answer",
    }
)
"""The server's log messages about processes that were killed or stopped."""
_START: Final = "listening"
_KILL_SECONDS: Final = 5.0
"""Both processes may have waited so long for a processor between the answer and the kill."""
_TRACEBACK: Final = "Traceback (most recent call last)"
_TRACEBACK_LINES: Final = 30


class Limits(NamedTuple):
    """Limits; a promise is broken when one is exceeded."""

    growth_percent: float
    """Growth of the HTTP process's memory, of the median engine's and of the fork server's, in an hour."""
    must_be_certain: bool
    """True if the whole interval of a slope has to lie below the limit; else only one that lies above it is a leak."""
    recovery_seconds: float
    """Seconds from an engine's loss until there are as many engines as before."""


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
        found = []
        if self.occupied:
            found.append(f"{self.occupied} slots or sentences are left")
        if self.descriptors > before.descriptors:
            found.append(f"{self.descriptors} descriptors are open, {before.descriptors} were")
        if self.tasks > before.tasks:
            found.append(f"{self.tasks} tasks, {before.tasks} were")
        if len(self.engine_megabytes) != ENGINES:
            found.append(f"{len(self.engine_megabytes)} engine processes instead of {ENGINES}")
        if len(self.fork_server_megabytes) != 1:
            found.append(f"{len(self.fork_server_megabytes)} fork servers instead of one")
        if self.zombies:
            found.append(f"{self.zombies} processes have ended, and nobody has waited for them")
        if self.orphans:
            found.append(f"{self.orphans} processes outlive a killed HTTP process")
        return found


async def read(site: Site) -> Reading:
    """Read the server's state now."""
    total = (await read_metrics(site.client)).total
    processes = site.server.processes()
    return Reading(
        round(time.monotonic() - site.started, 1),
        len(site.supervisor.kills),
        int(sum(total(f"dragoman_{name}") for name in ("slots_used", "requests_running", "requests_waiting"))),
        int(total("process_open_fds")),
        int(total("dragoman_tasks")),
        round(total("process_resident_memory_bytes") / 1e6, 1),
        [round(each.resident_megabytes, 1) for each in processes.fork_servers],
        [round(each.resident_megabytes, 1) for each in processes.engines],
        len(processes.zombies),
        site.supervisor.orphans(),
        int(total("dragoman_requests_total", endpoint=_ENDPOINT)),
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


def check_log(log: Path, site: Site, answered: int) -> None:
    """Check that every request has one line and its outcome in the log, none has two, and nothing failed inside.

    `answered` is how many the server has counted since it was started last: also of those whose clients did not wait
    for their outcome.
    """
    text = log.read_text(encoding="utf-8", errors="replace").splitlines()
    lines = [json.loads(line) for line in text if line.startswith("{")]
    requests = [line for line in lines if line["message"] == "request" and line["route"] == _ENDPOINT]
    last = max((number for number, line in enumerate(lines) if line["message"] == _START), default=0)
    counted = sum(1 for line in lines[last:] if line["message"] == "request" and line["route"] == _ENDPOINT)
    if counted != answered:
        site.problems.append(f"the log has {counted} requests, {answered} were counted")
    times = Counter(line["request_id"] for line in requests)
    outcome = {line["request_id"]: line["outcome"] for line in requests}
    if twice := [each for each, count in times.items() if count > 1]:
        site.problems.append(f"{len(twice)} requests have two outcomes: {twice[:3]}")
    for request_id, (expected, at) in {
        **{name: ("ok", at) for name, at in site.tally.ids.items()},
        **site.answered,
    }.items():
        # The last line of a request is written after its last byte: a kill may come between.
        is_cut = request_id not in outcome and any(abs(at - kill) < _KILL_SECONDS for kill in site.supervisor.kills)
        if outcome.get(request_id) != expected and not is_cut:
            site.problems.append(
                f"request {request_id} was answered {expected}, its log says {outcome.get(request_id)}"
            )
    _check_messages(text, lines, site)


def _check_messages(text: Sequence[str], lines: Sequence[dict[str, Any]], site: Site) -> None:
    for number, line in enumerate(text):
        # A process that dies of one does not log it.
        if line.startswith(_TRACEBACK):
            site.problems.append("\n".join(["log:", *text[number : number + _TRACEBACK_LINES]]))
    for fields in lines:
        is_error = fields["level"] in ("ERROR", "CRITICAL") and fields["message"] not in _EXPECTED_ERRORS
        if is_error or _TRACEBACK in fields.get("exc_info", ""):
            site.problems.append(f"log: {json.dumps(fields)[:2000]}")
        elif fields["message"] == "draining" and fields["requests"]:
            site.problems.append(f"{fields['requests']} requests were left at the end")
    deaths = sum(1 for fields in lines if fields["message"] == _DEATH)
    if deaths > site.deaths or (deaths < site.deaths and not site.supervisor.kills):
        site.problems.append(f"{deaths} engines died, {site.deaths} were killed or stopped")


def check_charges(site: Site) -> dict[str, int]:
    """Check that the canaries' key has paid for what was answered, and that nothing is left open."""
    with closing(sqlite3.connect(site.places.keys)) as database:
        [charged] = database.execute("SELECT coalesce(sum(characters), 0) FROM usage").fetchone()
        [still_open] = database.execute("SELECT count(*) FROM charges WHERE state = 'open'").fetchone()
    answered = site.tally.characters
    if charged != answered:
        site.problems.append(f"{charged} characters were charged, {answered} answered")
    if still_open:
        site.problems.append(f"{still_open} charges are open after the end")
    return {"charged": charged, "answered": answered, "charged_minus_answered": charged - answered, "open": still_open}


class Ending(NamedTuple):
    """The figures of the end."""

    stopped: dict[str, Any]
    characters: dict[str, int]
    skipped: list[str]


def summary(site: Site, readings: Sequence[Reading], ending: Ending, limits: Limits) -> dict[str, Any]:
    """Return everything as JSON; the last problems are found here."""
    slopes = _slopes(readings[1:])
    for what, found in slopes.items():
        limit = limits.growth_percent
        if found is None and limits.must_be_certain:
            site.problems.append(f"{what}: too few readings for a slope")
        elif found is not None and (found.high if limits.must_be_certain else found.low) > limit:
            site.problems.append(
                f"{what}: memory grows by {found.per_hour:.2f} % an hour ({found.low:.2f} to {found.high:.2f}), "
                f"the limit is {limit} %"
            )
    for fault, seconds in site.replaced_seconds.items():
        if (longest := max(seconds, default=0.0)) > limits.recovery_seconds:
            site.problems.append(
                f"{fault}: engines were replaced after {longest:.1f} s, the limit is {limits.recovery_seconds} s"
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
            "longest_pause_seconds": round(tally.longest_pause_seconds, 2),
            "longest_loss_seconds": round(tally.longest_loss_seconds, 2),
        },
        "characters": ending.characters,
        "faults": {name: dict(outcomes) for name, outcomes in sorted(site.outcomes.items())},
        "skipped": ending.skipped,
        "http_processes_killed": len(site.supervisor.kills),
        "engines_lost": site.deaths,
        "answered_requests": len(tally.ids) + len(site.answered),
        "replaced_seconds": {name: _spread(values) for name, values in site.replaced_seconds.items()},
        "answered_seconds": {name: _spread(values) for name, values in site.answered_seconds.items()},
        "refusal_seconds": _spread(site.refusal_seconds),
        "memory_percent_per_hour": {
            what: None if found is None else {name: round(value, 2) for name, value in found._asdict().items()}
            for what, found in slopes.items()
        },
        "readings": [each._asdict() for each in readings],
        "end": ending.stopped,
        "load_average": os.getloadavg()[0],
        "problems": site.problems,
    }


def _slopes(readings: Sequence[Reading]) -> dict[str, Slope | None]:
    """Return the growth of each kind of process; those that faults replace all the time have one life together."""
    return {
        "http": slope([Sample(each.at_seconds, each.http_megabytes, each.life) for each in readings]),
        "engine": slope([Sample(each.at_seconds, median(each.engine_megabytes or [0.0])) for each in readings]),
        "fork_server": slope(
            [Sample(each.at_seconds, median(each.fork_server_megabytes or [0.0])) for each in readings]
        ),
    }


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    return {"median": round(median(values), 3), "longest": round(max(values), 3)} if values else None
