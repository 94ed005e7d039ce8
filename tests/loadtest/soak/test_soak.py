"""The soak at a small size; and that it notices what is wrong."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from loadtest.soak import __main__ as soak
from loadtest.soak import canaries, fuzz, wire
from loadtest.soak.canaries import Tally, Told
from loadtest.soak.faults import FAULTS, Site
from loadtest.soak.report import Limits, Reading, check_log, summary
from tests.conftest import one_line

# Time and memory settle in minutes, on a machine that has nothing else to do.
UNLIMITED = Limits(1000, 1000, 1000)


def _run(*options: str) -> tuple[int, dict[str, Any]]:
    app = typer.Typer()
    app.command()(soak.main)
    limits = ["--growth-limit", "1000", "--engine-growth-limit", "1000", "--recovery-limit", "1000"]
    result = CliRunner().invoke(app, [*limits, *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_short_soak_of_every_fault() -> None:
    status, seen = _run("--seconds", "6", "--round-seconds", "3")
    assert seen["problems"] == []
    assert status == 0
    assert seen["canaries"]["asked"] == seen["canaries"]["identical"] > 20
    assert set(seen["faults"]) == set(FAULTS)
    assert seen["end"]["status"] == 0
    for fault in ("engine_killed", "engine_stopped", "all_killed"):
        assert 0 < seen["replaced_seconds"][fault]["median"] <= seen["replaced_seconds"][fault]["longest"]
        assert seen["answered_seconds"][fault]["longest"] > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_canary_that_differs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Tally.say
    count = 0

    async def say(self: Tally, *arguments: Any) -> Told:
        nonlocal count
        count += 1
        told = await real(self, *arguments)
        if count != 30:
            return told
        return told._replace(said=told.said._replace(logprobs=(*told.said.logprobs[:-1], 0.5)))

    monkeypatch.setattr(Tally, "say", say)
    status, seen = _run("--seconds", "2", "--round-seconds", "1", "--only", "half_open")
    assert status == 1
    assert ["another text or log-probability" in problem for problem in seen["problems"]] == [True]
    assert seen["canaries"]["identical"] == seen["canaries"]["asked"] - 1


def test_a_fault_that_does_not_exist() -> None:
    app = typer.Typer()
    app.command()(soak.main)
    result = CliRunner().invoke(app, ["--only", "earthquake"])
    assert result.exit_code == 2
    assert "earthquake" in one_line(result.output)


BEFORE = Reading(
    at_seconds=0,
    occupied=0,
    descriptors=20,
    tasks=6,
    http_megabytes=70,
    fork_server_megabytes=[280],
    engine_megabytes=[280, 280],
    zombies=0,
    deaths=0,
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
    ],
)
def test_what_is_left_is_named(after: Reading, word: str) -> None:
    [problem] = after.left(BEFORE, 2)
    assert word in problem


def test_nothing_left_is_no_problem() -> None:
    assert BEFORE._replace(descriptors=18, tasks=5, http_megabytes=90, deaths=4).left(BEFORE, 2) == []


def _site(log: Path) -> Site:
    nothing: Any = None
    return Site(nothing, nothing, random.Random(), log, 2, 32, [], Tally())


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
    site = _site(log)
    site.tally.ids.append("a")
    site.answered["b"] = "queue_full"
    check_log(log, site, answered)
    assert len(site.problems) == (problem is not None)
    assert problem is None or problem in site.problems[0]


@pytest.mark.parametrize(
    ("limits", "broken"),
    [
        (UNLIMITED, []),
        (Limits(4.5, 7.5, 9), []),
        (UNLIMITED._replace(growth_percent=3), ["memory grew by 4.0%"]),
        (UNLIMITED._replace(engine_growth_percent=6), ["the fork server's memory grew by 7.0%"]),
        (
            UNLIMITED._replace(engine_growth_percent=4),
            ["an engine's memory grew by 5.0%", "the fork server's memory grew by 7.0%"],
        ),
        (UNLIMITED._replace(recovery_seconds=8), ["all_killed: engines were replaced after 8.5 s"]),
    ],
)
def test_what_exceeds_its_limit_is_a_problem(tmp_path: Path, limits: Limits, broken: list[str]) -> None:
    site = _site(tmp_path)
    site.replaced_seconds |= {"engine_killed": [0.1, 0.2], "all_killed": [8.5, 0.1]}
    first = BEFORE._replace(http_megabytes=100, engine_megabytes=[180, 220], fork_server_megabytes=[300])
    last = BEFORE._replace(http_megabytes=104, engine_megabytes=[200, 220], fork_server_megabytes=[321])
    readings = [BEFORE, first, last]
    seen = summary(site, readings, {}, limits)
    assert seen["memory_growth_percent"] == 4
    assert seen["engine_memory_growth_percent"] == 5
    assert seen["fork_server_memory_growth_percent"] == 7
    assert [problem.partition(",")[0].removesuffix(" after the first round") for problem in seen["problems"]] == broken


def test_unexpected_deaths_are_a_problem(tmp_path: Path) -> None:
    [problem] = summary(_site(tmp_path), [BEFORE, BEFORE, BEFORE._replace(deaths=1)], {}, UNLIMITED)["problems"]
    assert "engines died" in problem


def test_answers_are_read_as_they_come() -> None:
    stream = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nid: 0\r\nevent: start\r\ndata: {}\r\n\r\n"
    assert wire.parse(stream).outcome == "cut"
    assert wire.parse(stream + b"id: 1\r\nevent: done\r\ndata: {}\r\n\r\n").outcome == "ok"
    error = b'event: error\r\ndata: {"error":"x","code":"engine_failed"}\r\n\r\n'
    assert wire.parse(stream + error).outcome == "engine_failed"
    refused = wire.parse(b'HTTP/1.1 429 Too Many\r\nRetry-After: 1\r\n\r\n{"error":"x","code":"queue_full"}')
    assert (refused.status, refused.outcome, refused.headers["retry-after"]) == (429, "queue_full", "1")
    assert wire.parse(b"").outcome == wire.parse(b"\x00\xff").outcome == "cut"


def test_fuzz_is_the_same_for_the_same_seed_and_of_many_kinds() -> None:
    def requests() -> list[bytes]:
        rng = random.Random(5)
        return [fuzz.request(rng) for _ in range(300)]

    def without_ids(data: bytes) -> bytes:
        head, _, rest = data.partition(b"X-Request-ID: ")
        return head + rest[16:]

    one, two = requests(), requests()
    assert list(map(without_ids, one)) == list(map(without_ids, two))
    assert len({data[:12] for data in one}) > 20


def test_canaries_are_of_every_kind() -> None:
    birds = canaries.canaries(24)
    assert {json.dumps(bird.options) for bird in birds} == {json.dumps(each) for each in canaries._OPTIONS}
    assert len({len(bird.text) for bird in birds}) > 10
    assert "engine_stopped" in FAULTS
