"""Each scenario and the saturation curve against a real server, for a few seconds."""

import csv
import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import ClassVar

import pytest
from typer.testing import CliRunner

# Not imported: locust makes the whole process gevent's.
if find_spec("locust") is None:
    pytest.skip("install '.[load]'", allow_module_level=True)

import typer

from loadtest.load import saturation
from loadtest.load.saturation import Point
from tests.system.conftest import Server, run_server

SCENARIOS = Path(saturation.__file__).parent / "scenarios"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(tmp_path_factory.mktemp("server") / "log") as running:
        yield running


def _locust(server: Server, file: Path, prefix: Path, *options: str, users: int = 4) -> dict[str, dict[str, str]]:
    """Locust's rows by name; anything that fails, fails the run."""
    command = [sys.executable, "-m", "locust", "-f", str(file), "--headless", "--only-summary", "--host", server.url]
    command += [*f"-u {users} -r {users} -t 4s --csv {prefix} --html {prefix}.html".split(), *options]
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


def test_every_scenario_is_tested() -> None:
    assert {file.stem for file in SCENARIOS.glob("*.py")} - {"__init__", "users"} == set(ROWS)


@pytest.mark.parametrize(
    "name", [name if name == "interactive" else pytest.param(name, marks=pytest.mark.slow) for name in ROWS]
)
def test_a_scenario_runs_and_nothing_fails(name: str, server: Server, tmp_path: Path) -> None:
    cancelled = server.metric("dragoman_requests_total", 'outcome="cancelled"')
    # So many that each kind has one; and long documents may be ended on a slow machine.
    users = 8 if name in ("mixed", "documents") else 4
    patience = ["--stop-timeout", "30"] if name == "documents" else []
    rows = _locust(server, SCENARIOS / f"{name}.py", tmp_path / name, *patience, users=users)
    assert set(rows) >= ROWS[name]
    assert all(int(row["Failure Count"]) == 0 for row in rows.values())
    assert (tmp_path / f"{name}.html").stat().st_size > 0
    if name == "impatient":
        assert server.metric("dragoman_requests_total", 'outcome="cancelled"') > cancelled
    server.wait_for_metric("dragoman_slots_used", 0)


@pytest.mark.slow
def test_the_locustfile_of_the_readme(server: Server, tmp_path: Path) -> None:
    rows = _locust(server, SCENARIOS.parent / "locustfile.py", tmp_path / "users")
    assert set(rows) >= STREAM_ROWS


ROUNDING = 1e-9
"""Tolerance for quotients."""


@pytest.mark.slow
def test_a_curve(server: Server, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(saturation.main)
    run = ["--rates", "2,20", "--seconds", "3", "--host", server.url, "--options", '{"beam_size": 2}']
    tokens, ok = _done(server)
    result = CliRunner().invoke(app, [str(tmp_path), *run])
    assert result.exit_code == 0, result.output
    tokens, ok = (after - before for after, before in zip(_done(server), (tokens, ok), strict=True))
    low, high = points = [Point(**point) for point in json.loads((tmp_path / "curve.json").read_text())]
    assert [point.offered_per_second for point in points] == [2, 20]
    assert low.started_per_second < high.started_per_second
    for point in points:
        assert point.seconds >= 3
        assert point.refused == point.failed == 0
        assert point.first_token_p50 is not None
        assert point.first_token_p99 is not None
        assert point.first_token_p50 <= point.first_token_p99
    assert tokens > 0
    assert sum((point.tokens_per_second or 0) * point.seconds for point in points) <= tokens * (1 + ROUNDING)
    assert sum(point.ok_per_second * point.seconds + point.unfinished for point in points) <= ok * (1 + ROUNDING)
    with (tmp_path / "curve.csv").open(newline="") as rows:
        assert [float(row["offered_per_second"]) for row in csv.DictReader(rows)] == [2, 20]
    assert (tmp_path / "curve.svg").read_text().count("sentences a second") > 0
    for rate in ("2", "20"):
        assert (tmp_path / f"rate-{rate}.html").stat().st_size > 0


def _done(server: Server) -> tuple[float, float]:
    return server.metric("dragoman_generated_tokens_total"), server.metric("dragoman_requests_total", 'outcome="ok"')


class Late(ThreadingHTTPServer):
    """Answers one stream at once, and the others when the window's end has been asked for; that waits for the one."""

    daemon_threads = True
    request_queue_size = 1000  # as many may come at once
    metrics: ClassVar = (0, 100, 140, 1000)
    """Tokens: when it is asked before the run, at the window's begin and end, and when nothing runs any more."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.numbers = itertools.count()
        self.scrapes = itertools.count()
        self.first_one_answered = threading.Event()
        self.window_over = threading.Event()
        self.waited: list[float] = []
        """Seconds, of each stream that has been answered."""


class _Handler(BaseHTTPRequestHandler):
    server: Late

    def do_GET(self) -> None:
        scrape = next(self.server.scrapes)
        at_the_end = scrape == 2
        if at_the_end:
            self.server.first_one_answered.wait(60)
            time.sleep(0.5)  # the client reads it
        self._answer(
            200,
            f'dragoman_generated_tokens_total{{model="toy"}} {self.server.metrics[scrape]}\n'.encode(),
        )
        if at_the_end:
            time.sleep(0.5)  # the client reads this before any of what comes after the window
            self.server.window_over.set()

    def do_POST(self) -> None:
        came = time.monotonic()
        self.rfile.read(int(self.headers["Content-Length"]))
        is_first = next(self.server.numbers) == 0
        if not is_first:
            self.server.window_over.wait(60)
        self.server.waited.append(time.monotonic() - came)
        self._answer(200, b'event: token\ndata: {"text": "oui"}\n\nevent: done\ndata: {"translatedText": "oui"}\n\n')
        if is_first:
            self.server.first_one_answered.set()

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Run without a terminal."""


@contextmanager
def _serving(server: Late) -> Iterator[Late]:
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.window_over.set()
            server.shutdown()


def _measure(url: str, prefix: Path, rate: float = 50, options: str = "{}") -> Point:
    """One second and as much longer as the end takes."""
    return saturation.measure(url, rate=rate, seconds=1, options=options, prefix=prefix)


def test_what_is_done_after_the_run_is_not_counted_in_its_seconds(tmp_path: Path) -> None:
    with _serving(Late()) as late:
        point = _measure(late.url, tmp_path / "late")
    assert point.refused == point.failed == 0
    assert point.seconds >= 1
    assert point.tokens_per_second is not None
    assert point.tokens_per_second * point.seconds == pytest.approx(40)
    ok = round(point.ok_per_second * point.seconds)
    assert ok >= 1
    assert point.unfinished >= 1
    assert round(point.started_per_second * point.seconds) == ok + point.unfinished <= len(late.waited)
    assert point.whole_p99 is not None
    # Locust rounds to two digits.
    assert point.whole_p99 * 1.06 > 1000 * median(late.waited), "their times count"


@pytest.mark.slow
def test_refusals_are_neither_failures_nor_fast_answers(tmp_path: Path) -> None:
    # One beam decodes, two wait, and each takes many times as long as the next one's coming.
    with run_server(tmp_path / "log", "--slots", "8", "--max-waiting", "16") as busy:
        point = _measure(busy.url, tmp_path / "flood", rate=300, options='{"beam_size": 8}')
        refused = busy.metric("dragoman_requests_total", 'outcome="queue_full"')
    assert point.refused == refused > 0
    assert point.failed == 0
    assert point.first_token_p50 is not None
    assert point.whole_p50 is not None
    assert point.whole_p50 >= point.first_token_p50
