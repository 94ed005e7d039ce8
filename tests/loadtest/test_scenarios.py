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
from loadtest.saturation import point
from tests.system.conftest import Server, run_server

SCENARIOS = Path(saturation.__file__).parent / "scenarios"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(tmp_path_factory.mktemp("server") / "log") as running:
        yield running


def _locust(server: Server, file: Path, prefix: Path, *options: str) -> dict[str, dict[str, str]]:
    """Locust's rows by name; anything that fails, fails the run."""
    command = [sys.executable, "-m", "locust", "-f", str(file), "--headless", "--only-summary", "--host", server.url]
    command += ["-u", "4", "-r", "4", "-t", "4s", "--csv", str(prefix), "--html", f"{prefix}.html", *options]
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
    rows = _locust(server, SCENARIOS / f"{name}.py", tmp_path / name)
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


def test_refused_is_not_failed() -> None:
    stats = [{"Name": "/translate (stream)", "Request Count": "30", "Failure Count": "12", "50%": "8", "99%": "N/A"}]
    failures = [
        {"Error": "CatchResponseError('429 refused: too many requests waiting')", "Occurrences": "10"},
        {"Error": "CatchResponseError('no answer')", "Occurrences": "2"},
    ]
    result = point(5, 2, 100, stats, failures)
    assert (result.refused, result.failed, result.ok_per_second, result.started_per_second) == (10, 2, 9, 15)
    assert (result.tokens_per_second, result.whole_p50, result.whole_p99) == (50, 8, None)
    assert result.first_token_p50 is None
