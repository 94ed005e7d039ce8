"""Offered load against throughput and time to first token: `python -m loadtest.load.saturation --help`.

Each rate is a run of `loadtest/load/arrivals.py` by locust, an open loop: sentences come at random moments
whether or not the ones before are answered.
"""

import csv
import json
import math
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import httpx
import typer

from loadtest.metrics import Metrics
from service.process.interpreter import python_command

_ARRIVALS: Final = Path(__file__).parent / "arrivals.py"


class Point(NamedTuple):
    """The outcome of one rate; times are in ms, and None if nothing was answered."""

    offered_per_second: float
    seconds: float
    """Duration of the run: the requested seconds, and the time of its end."""
    started_per_second: float
    """Below the offered rate, the machine that makes the load cannot keep up, and the point says little."""
    ok_per_second: float
    tokens_per_second: float | None
    """None if the server did not report them."""
    unfinished: int
    """Requests in flight when no more are started; the run waits for them, and their times count."""
    refused: int
    failed: int
    first_token_p50: float | None
    first_token_p99: float | None
    whole_p50: float | None
    whole_p99: float | None


def main(
    directory: Annotated[Path, typer.Argument(help="Directory for curve.csv, curve.json and locust's reports.")],
    rates: Annotated[str, typer.Option(help="Comma-separated sentences a second, one run each.")] = "5,10,20,40,80,160",
    seconds: Annotated[int, typer.Option(min=1, help="Duration of each run.")] = 30,
    host: Annotated[str, typer.Option(help="Address of the server.")] = "http://127.0.0.1:5000",
    options: Annotated[str, typer.Option(help="More fields of each request, as JSON.")] = "{}",
) -> None:
    """Run each rate, and write the curve."""
    try:
        wanted = [float(rate) for rate in rates.split(",")]
    except ValueError:
        wanted = []
    if not all(0 < rate < math.inf for rate in wanted) or not wanted:
        raise typer.BadParameter("--rates: numbers above 0 with commas in between")
    if not _is_object(options):
        raise typer.BadParameter("--options: must be an object, in JSON")
    directory.mkdir(parents=True, exist_ok=True)
    points: list[Point] = []
    try:
        for rate in wanted:
            points.append(measure(host, rate, seconds, options, directory / f"rate-{rate:g}"))
            typer.echo(json.dumps(points[-1]._asdict()))
    finally:
        if points:
            write(points, directory)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _check(host: str) -> None:
    try:
        Metrics(httpx.get(f"{host}/metrics").raise_for_status().text)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise typer.BadParameter(f"--host: {host} does not report its metrics: {error}") from None


def measure(host: str, rate: float, seconds: int, options: str, prefix: Path) -> Point:
    """Run one rate; the outcome, locust's tables and its report have names that begin with `prefix`.

    Raises `typer.BadParameter` if the server does not report its metrics.
    """
    _check(host)
    outcome = Path(f"{prefix}.json")
    outcome.unlink(missing_ok=True)  # an earlier run's, which would pass for this one's
    command = python_command("-m", "locust", "-f", str(_ARRIVALS), "--headless", "--only-summary", "--users", "1")
    command += ["--rate", str(rate), "--options", options, "--window", str(seconds), "--host", host]
    command += [
        "--outcome",
        str(outcome),
        "--csv",
        str(prefix),
        "--html",
        f"{prefix}.html",
        "--exit-code-on-error",
        "0",
    ]
    subprocess.run(command, check=True, capture_output=True)
    return Point(rate, **json.loads(outcome.read_text(encoding="utf-8")))


def write(points: Sequence[Point], directory: Path) -> None:
    """Write the curve as a table and as JSON."""
    with (directory / "curve.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Point._fields)
        writer.writerows(points)
    curve: list[dict[str, Any]] = [each._asdict() for each in points]
    (directory / "curve.json").write_text(json.dumps(curve, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
