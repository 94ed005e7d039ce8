"""Each scenario and the saturation curve against a real server, for a few seconds."""

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

# Not imported: locust makes the whole process gevent's.
if find_spec("locust") is None:
    pytest.skip("install '.[load]'", allow_module_level=True)

import typer

from loadtest import saturation
from loadtest.saturation import Point
from tests.system.conftest import Server, run_server

SCENARIOS = Path(saturation.__file__).parent / "scenarios"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(tmp_path_factory.mktemp("server") / "log") as running:
        yield running


def _locust(server: Server, file: Path, prefix: Path, *options: str, users: int = 4) -> dict[str, dict[str, str]]:
    """Locust's rows by name; anything that fails, fails the run."""
    command = [sys.executable, "-m", "locust", "-f", str(file), "--headless", "--only-summary", "--host", server.url]
    command += [
        "-u",
        str(users),
        "-r",
        str(users),
        "-t",
        "4s",
        "--csv",
        str(prefix),
        "--html",
        f"{prefix}.html",
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with Path(f"{prefix}_stats.csv").open(newline="") as rows:
        return {row["Name"]: row for row in csv.DictReader(rows)}


STREAM_ROWS = {"/translate (stream)", "time to first token", "inter-token time"}
ROWS = {
    "interactive": STREAM_ROWS,
    "documents": {*STREAM_ROWS, "/translate (JSON)"},
    "mixed": {*STREAM_ROWS, "/translate (JSON)"},
    "spike": STREAM_ROWS,
    "slow_readers": {"time to first token", "/translate (JSON)"},
    "impatient": {*STREAM_ROWS, "/translate (left)"},
}


USERS = {
    "interactive": {"Interactive"},
    "documents": {"Documents"},
    "mixed": {"Readers", "Writers", "Arrays"},
    "spike": {"Spiking"},
    "slow_readers": {"SlowReaders", "Others"},
    "impatient": {"Impatient", "Patient"},
}


def test_every_scenario_is_tested() -> None:
    assert {file.stem for file in SCENARIOS.glob("*.py")} - {"__init__", "users"} == set(ROWS) == set(USERS)


@pytest.mark.parametrize("name", USERS)
def test_a_scenario_has_no_other_s_users(name: str) -> None:
    command = [sys.executable, "-m", "locust", "-f", str(SCENARIOS / f"{name}.py"), "--list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert set(listed.split()) == {"Available", "Users:", *USERS[name]}


@pytest.mark.parametrize("name", ROWS)
def test_a_scenario_runs_and_nothing_fails(name: str, server: Server, tmp_path: Path) -> None:
    cancelled = server.metric("dragoman_requests_total", 'outcome="cancelled"')
    # So many that each kind has one.
    rows = _locust(server, SCENARIOS / f"{name}.py", tmp_path / name, users=8 if name == "mixed" else 4)
    assert set(rows) >= ROWS[name]
    assert all(int(row["Failure Count"]) == 0 for row in rows.values())
    assert (tmp_path / f"{name}.html").stat().st_size > 0
    if name == "impatient":
        assert server.metric("dragoman_requests_total", 'outcome="cancelled"') > cancelled
    server.wait_for_metric("dragoman_slots_used", 0)


def test_the_locustfile_of_the_readme(server: Server, tmp_path: Path) -> None:
    rows = _locust(server, SCENARIOS.parent / "locustfile.py", tmp_path / "users")
    assert set(rows) >= STREAM_ROWS


def test_a_poisson_user_s_rate_does_not_depend_on_the_answers(server: Server, tmp_path: Path) -> None:
    """Four users with half a sentence a second each, for four seconds: about eight, not hundreds."""
    rows = _locust(server, SCENARIOS / "interactive.py", tmp_path / "slow", "--rate", "0.5")
    assert int(rows["/translate (stream)"]["Request Count"]) < 40


def test_a_curve(server: Server, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(saturation.main)
    run = ["--rates", "3,20", "--seconds", "3", "--host", server.url, "--options", '{"beam_size": 2}']
    result = CliRunner().invoke(app, [str(tmp_path), *run])
    assert result.exit_code == 0, result.output
    low, high = json.loads((tmp_path / "curve.json").read_text())
    assert low["ok_per_second"] < high["ok_per_second"]
    assert low["tokens_per_second"] < high["tokens_per_second"]
    assert low["first_token_p50"] <= low["first_token_p99"]
    assert len((tmp_path / "curve.csv").read_text().splitlines()) == 3
    assert (tmp_path / "curve.svg").read_text().count("sentences a second") > 0


def _flood(url: str, prefix: Path) -> Point:
    """A second of more than one beam after the other can do."""
    return saturation.measure(url, rate=100, seconds=1, options='{"beam_size": 8}', prefix=prefix)


def test_what_is_done_after_the_run_is_not_counted_in_its_seconds(tmp_path: Path) -> None:
    with run_server(tmp_path / "log", "--slots", "8", "--max-waiting", "10000") as busy:
        point = _flood(busy.url, tmp_path / "flood")
        ok = busy.metric("dragoman_requests_total", 'outcome="ok"')
        tokens = busy.metric("dragoman_generated_tokens_total")
    assert point.refused == point.failed == 0
    assert point.unfinished > 10
    assert point.ok_per_second <= ok - point.unfinished
    assert point.tokens_per_second < tokens
    assert point.started_per_second > point.unfinished / 2, "in a second, or somewhat more"
    assert point.whole_p99 is not None
    assert point.whole_p99 > 500, "the last ones have waited for all the others"


def test_refusals_are_neither_failures_nor_fast_answers(tmp_path: Path) -> None:
    with run_server(tmp_path / "log", "--slots", "8", "--max-waiting", "16") as busy:
        point = _flood(busy.url, tmp_path / "flood")
        refused = busy.metric("dragoman_requests_total", 'outcome="queue_full"')
    assert point.refused == refused > 10
    assert point.failed == 0
    assert point.first_token_p50 is not None
    assert point.whole_p50 is not None
    assert point.whole_p50 >= point.first_token_p50
