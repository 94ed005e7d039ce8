"""Each scenario and the saturation curve against a real server, for a few seconds."""

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

# Not imported: locust makes the whole process gevent's.
if find_spec("locust") is None:
    pytest.skip("install '.[load]'", allow_module_level=True)

from loadtest import load
from tests.system.conftest import Server, run_server

LOAD = Path(load.__file__).parent


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(tmp_path_factory.mktemp("server") / "log") as running:
        yield running


def _locust(
    server: Server, file: Path, prefix: Path, *options: str, users: int = 4, seconds: int = 4
) -> dict[str, dict[str, str]]:
    """Locust's rows by name; anything that fails, fails the run."""
    command = [sys.executable, "-m", "locust", "-f", str(file), "--headless", "--only-summary", "--host", server.url]
    command += [*f"-u {users} -r {users} -t {seconds}s --csv {prefix} --html {prefix}.html".split(), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with Path(f"{prefix}_stats.csv").open(newline="") as rows:
        return {row["Name"]: row for row in csv.DictReader(rows)}


STREAM_ROWS = {"/translate (stream)", "time to first token", "inter-token time"}
JSON = "/translate (JSON)"
SCENARIOS = {
    "scenarios.py Interactive": STREAM_ROWS,
    "scenarios.py Documents": {*STREAM_ROWS, JSON},
    "scenarios.py Interactive Writers Arrays": {*STREAM_ROWS, JSON},
    "scenarios.py SlowReaders JsonUser": {"time to first token", JSON},
    "scenarios.py Impatient StreamingUser": {*STREAM_ROWS, "/translate (left)"},
    "spike.py": STREAM_ROWS,
    "locustfile.py": STREAM_ROWS,
}


@pytest.mark.parametrize(
    "scenario",
    [each if each.endswith("Interactive") else pytest.param(each, marks=pytest.mark.slow) for each in SCENARIOS],
)
def test_a_scenario_runs_and_nothing_fails(scenario: str, server: Server, tmp_path: Path) -> None:
    cancelled = server.metric("dragoman_requests_total", 'outcome="cancelled"')
    file, *classes = scenario.split()
    has_documents = bool({"Documents", "Writers"} & {*classes})
    # So many that each kind has one, and so long that a slow machine has begun each, and ends long documents.
    patience = {"users": 8, "seconds": 8} if has_documents else {}
    options = ["--stop-timeout", "120"] if has_documents else []
    rows = _locust(server, LOAD / file, tmp_path / "run", *options, *classes, **patience)
    assert set(rows) >= SCENARIOS[scenario]
    assert all(int(row["Failure Count"]) == 0 for row in rows.values())
    assert (tmp_path / "run.html").stat().st_size > 0
    if "Impatient" in classes:
        assert server.metric("dragoman_requests_total", 'outcome="cancelled"') > cancelled
    server.wait_for_metric("dragoman_slots_used", 0)


ROUNDING = 1e-9
"""Tolerance for quotients."""


def _curve(server: Server, directory: Path, *options: str) -> list[dict[str, float]]:
    """Return the points of a curve."""
    command = [sys.executable, "-m", "loadtest.load.saturation", str(directory), "--host", server.url, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    points: list[dict[str, float]] = json.loads((directory / "curve.json").read_text())
    return points


@pytest.mark.slow
def test_a_curve(server: Server, tmp_path: Path) -> None:
    tokens, ok = _done(server)
    points = _curve(server, tmp_path, "--rates", "2,20", "--seconds", "3", "--options", '{"beam_size": 2}')
    tokens, ok = (after - before for after, before in zip(_done(server), (tokens, ok), strict=True))
    assert [point["offered_per_second"] for point in points] == [2, 20]
    assert points[0]["started_per_second"] < points[1]["started_per_second"]
    for point in points:
        assert point["seconds"] >= 3
        assert point["refused"] == point["failed"] == 0
        assert 0 < point["first_token_p50"] <= point["first_token_p99"]
    assert 0 < sum(point["tokens_per_second"] * point["seconds"] for point in points) <= tokens * (1 + ROUNDING)
    finished = sum(point["ok_per_second"] * point["seconds"] + point["unfinished"] for point in points)
    assert 0 < finished <= ok * (1 + ROUNDING)  # the metrics that are read are answers, too
    with (tmp_path / "curve.csv").open(newline="") as rows:
        assert [float(row["offered_per_second"]) for row in csv.DictReader(rows)] == [2, 20]


def _done(server: Server) -> tuple[float, float]:
    return server.metric("dragoman_generated_tokens_total"), server.metric("dragoman_requests_total", 'outcome="ok"')


@pytest.mark.slow
def test_refusals_are_neither_failures_nor_fast_answers(tmp_path: Path) -> None:
    # One beam decodes, two wait, and each takes many times as long as the next one's coming.
    with run_server(tmp_path / "log", "--slots", "8", "--max-waiting", "16") as busy:
        [point] = _curve(busy, tmp_path, "--rates", "300", "--seconds", "1", "--options", '{"beam_size": 8}')
        refused = busy.metric("dragoman_requests_total", 'outcome="queue_full"')
    assert point["refused"] == refused > 0
    assert point["failed"] == 0
    assert point["whole_p50"] >= point["first_token_p50"]
