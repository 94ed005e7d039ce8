"""The soak at a small size; and that it notices what is wrong."""

import json
import math
import random
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
from typer.testing import CliRunner

from loadtest.local_server import StreamedTranslation
from loadtest.soak import __main__ as soak
from loadtest.soak.canaries import Canary, Tally
from loadtest.soak.checks import check_charges, check_log
from loadtest.soak.faults import FAULTS
from loadtest.soak.report import Reading, summary
from loadtest.soak.site import Places, Plan, Site
from loadtest.soak.supervisor import Supervisor
from service.access.key_store import KeyLimits, KeyStore

# Time and memory settle in minutes, on a machine that has nothing else to do.
UNLIMITED = Plan(2, 1, [], is_long=False, growth_percent=1e9, recovery_seconds=1000)


def _run(*options: str) -> tuple[int, dict[str, Any]]:
    app = typer.Typer()
    app.command()(soak.main)
    limits = ["--growth-limit", "1e9", "--recovery-limit", "1000"]
    result = CliRunner().invoke(app, [*limits, *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_short_soak_of_every_fault() -> None:
    status, seen = _run("--seconds", "6", "--round-seconds", "3")
    assert seen["problems"] == []
    assert status == 0
    assert seen["verdict"] == "kept"
    assert seen["canaries"]["begun"] == seen["canaries"]["identical"] > 20
    assert set(seen["faults"]) == set(FAULTS)
    characters = seen["characters"]
    assert 0 <= characters["charged"] - characters["answered"] <= characters["lost_before_an_event"]
    assert seen["http_processes_ended"] >= 4
    assert seen["end"]["status"] == 0
    for fault in ("engine_killed", "engine_stopped", "killed_engines_and_fork_server_and_http"):
        assert 0 < seen["replaced_seconds"][fault]["median"] <= seen["replaced_seconds"][fault]["longest"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_canary_that_differs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Tally.translate
    count = 0

    async def translate(self: Tally, client: httpx.AsyncClient, canary: Canary) -> StreamedTranslation:
        nonlocal count
        count += 1
        found = await real(self, client, canary)
        return found._replace(logprobs=(*found.logprobs[:-1], 0.5)) if count == 30 else found

    monkeypatch.setattr(Tally, "translate", translate)
    status, seen = _run("--seconds", "2", "--round-seconds", "1", "--only", "half_open")
    assert status == 1
    assert ["another text or log-probability" in problem for problem in seen["problems"]] == [True]
    assert seen["canaries"]["identical"] == seen["canaries"]["begun"] - 1


BEFORE = Reading(
    at_seconds=0,
    life=0,
    occupied=0,
    descriptors=20,
    tasks=6,
    http_megabytes=70,
    fork_server_megabytes=[280],
    engine_megabytes=[280, 280],
    zombies=0,
    orphans=0,
    answered=0,
)


@pytest.mark.parametrize(
    ("after", "word"),
    [
        (BEFORE._replace(occupied=1), "slots"),
        (BEFORE._replace(descriptors=21), "descriptors"),
        (BEFORE._replace(tasks=7), "tasks"),
        (BEFORE._replace(engine_megabytes=[280, 280, 280]), "3 engine processes"),
        (BEFORE._replace(fork_server_megabytes=[280, 280]), "2 fork servers"),
        (BEFORE._replace(fork_server_megabytes=[]), "0 fork servers"),
        (BEFORE._replace(zombies=1), "waited for"),
        (BEFORE._replace(orphans=1), "outlive a killed"),
    ],
)
def test_what_is_left_is_named(after: Reading, word: str) -> None:
    [problem] = after.left(BEFORE)
    assert word in problem


def test_nothing_left_is_no_problem() -> None:
    assert BEFORE._replace(descriptors=18, tasks=5, http_megabytes=90, life=4).left(BEFORE) == []


class Killed:
    """A supervisor that has killed the HTTP process at these times."""

    def __init__(self, *kills: float) -> None:
        self.ends = kills
        self._up_since = max(kills, default=-math.inf)
        self.problems: list[str] = []

    was_down_since = Supervisor.was_down_since
    _is_killed = _is_starting = False


def _site(directory: Path, *kills: float) -> Site:
    nothing: Any = None
    supervisor: Any = Killed(*kills)
    return Site(supervisor, nothing, Places(directory), Tally("", random.Random()))


def _line(request_id: str, outcome: str, **fields: object) -> str:
    line = {"level": "INFO", "message": "request", "route": "/translate", "request_id": request_id, "outcome": outcome}
    return json.dumps(line | fields) + "\n"


def _error(message: str, level: str = "ERROR", **fields: object) -> str:
    return json.dumps({"level": level, "message": message} | fields) + "\n"


BOTH = _line("a", "ok") + _line("b", "queue_full")
TRACEBACK = "Traceback (most recent call last):\n  File ...\nKeyError: 7\n"


@pytest.mark.parametrize(
    ("lines", "answered", "problem"),
    [
        (BOTH, 2, None),
        (BOTH + _line("c", "cancelled"), 3, None),
        (BOTH + _line("c", "ok", route="/detect"), 2, None),
        (BOTH, 3, "the log has 2 requests, 3 were counted"),
        (_line("a", "ok") + _line("b", "ok"), 2, "b was answered queue_full, its log says ok"),
        (_line("b", "queue_full"), 1, "a was answered ok, its log says None"),
        (_line("a", "ok") + BOTH, 3, "two outcomes"),
        (BOTH + _line("", "", message="draining", requests=1), 2, "were left"),
        (BOTH + _error("engine process ended, starting another", backoff_seconds=0.1), 2, None),
        (BOTH + _error("the fork server cannot start", reason="there is no config.json"), 2, None),
        (BOTH + _error("few descriptors are left", "WARNING"), 2, None),
        (BOTH + _error("unexpected error in a stream"), 2, "unexpected error"),
        (BOTH + _error("Task exception was never retrieved"), 2, "never retrieved"),
        (BOTH + _error("the engine has hung", exc_info=TRACEBACK), 2, "KeyError"),
        (BOTH + _error("out of everything", "CRITICAL"), 2, "out of everything"),
        (BOTH + TRACEBACK, 2, "KeyError: 7"),
    ],
)
def test_the_log_is_compared_with_what_clients_saw(
    tmp_path: Path, lines: str, answered: int, problem: str | None
) -> None:
    log = tmp_path / "log"
    log.write_text("not JSON: a warning of Python's\n" + lines)
    site = _site(tmp_path)
    site.deaths = lines.count("engine process ended")
    site.tally.ids["a"] = 5.0
    site.answered["b"] = "queue_full", 5.0
    check_log(log, site, answered)
    assert len(site.problems) == (problem is not None)
    assert problem is None or problem in site.problems[0]


def _readings(last_megabytes: float = 70) -> list[Reading]:
    """An hour of readings that do not change, but for the HTTP process's memory in the second half."""
    hour = [BEFORE._replace(at_seconds=60.0 * minute) for minute in range(60)]
    return [*hour[:30], *(each._replace(http_megabytes=last_megabytes) for each in hour[30:])]


@pytest.mark.parametrize(
    ("plan", "broken"),
    [
        (UNLIMITED, []),
        (UNLIMITED._replace(growth_percent=1), ["http: memory grows by"]),
        (UNLIMITED._replace(recovery_seconds=8), ["all: engines were replaced after 8.5 s"]),
    ],
)
def test_what_exceeds_its_limit_is_a_problem(tmp_path: Path, plan: Plan, broken: list[str]) -> None:
    site = _site(tmp_path)
    site.replaced_seconds |= {"engine_killed": [0.1, 0.2], "all": [8.5, 0.1]}
    seen = summary(site, _readings(77), plan)
    assert seen["memory_percent_per_hour"]["http"]["low"] > 1
    assert seen["memory_percent_per_hour"]["engine"]["per_hour"] == pytest.approx(0, abs=1e-6)
    assert len(broken) == len(seen["problems"])
    assert all(map(str.startswith, seen["problems"], broken))
    assert seen["verdict"] == ("broken" if broken else "kept")


def test_a_run_of_hours_must_show_that_nothing_grows(tmp_path: Path) -> None:
    for certain, problems in ((False, 0), (True, 3)):
        plan = Plan(2, 1, [], is_long=certain, growth_percent=0.5, recovery_seconds=10)
        assert len(summary(_site(tmp_path), [BEFORE] * 3, plan)["problems"]) == problems
    assert summary(_site(tmp_path), _readings(), plan)["problems"] == []


@pytest.mark.parametrize(("deaths", "kills", "problems"), [(1, (), 0), (0, (), 1), (2, (), 1), (2, (5.0,), 0)])
def test_unexpected_deaths_are_a_problem(tmp_path: Path, deaths: int, kills: tuple[float, ...], problems: int) -> None:
    """A server that is killed does not write down that its engines have ended."""
    log = tmp_path / "log"
    log.write_text(_error("engine process ended, starting another"))
    site = _site(tmp_path, *kills)
    site.deaths = deaths
    check_log(log, site, 0)
    assert len(site.problems) == problems


@pytest.mark.parametrize(("answered", "lost", "problems"), [(9, 0, 0), (4, 5, 0), (4, 4, 1), (10, 1, 1)])
def test_charges_are_compared_with_answers(tmp_path: Path, answered: int, lost: int, problems: int) -> None:
    site = _site(tmp_path)
    with closing(KeyStore(site.places.keys, create=True)) as keys:
        key = keys.find(keys.add("canaries", KeyLimits()))
        assert key is not None
        assert keys.count(key, "2026-01", 9)
    site.tally.characters, site.tally.characters_lost = answered, lost
    assert check_charges(site)["charged"] == 9
    assert len(site.problems) == problems
