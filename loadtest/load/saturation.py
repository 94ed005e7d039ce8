"""Offered load against throughput and time to first token: `python -m loadtest.load.saturation --help`.

Each rate is an open loop: sentences come at random moments, whether or not the ones before are answered. Requests that
have begun run to their end, and their times count. Tokens and answers after the window do not: they would be more than
the server does in so many seconds.
"""

import csv
import json
import math
import random
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import gevent
import httpx
import typer
from gevent.pool import Group
from locust.env import Environment

from loadtest.load.users import FIRST_TOKEN, REFUSED, STREAM, TranslatingUser, sentence
from loadtest.metrics import Metrics

_LAST_ONES_SECONDS: Final = 150.0
"""The server's deadline is earlier."""


class Point(NamedTuple):
    """The outcome of one rate; times are in ms, and None if nothing was answered."""

    offered_per_second: float
    seconds: float
    """Duration of the run: the requested seconds, and the time of its end."""
    started_per_second: float
    """Below the offered rate, the machine that makes the load cannot keep up, and the point says little."""
    ok_per_second: float
    tokens_per_second: float
    unfinished: int
    """Requests in flight when no more are started; the run waits for them, and their times count."""
    refused: int
    failed: int
    first_token_p50: float | None
    first_token_p99: float | None
    whole_p50: float | None
    whole_p99: float | None


class _User(TranslatingUser):
    concurrency = 100_000  # connections; no request waits for another one's


def main(
    directory: Annotated[Path, typer.Argument(help="Directory for curve.csv and curve.json.")],
    rates: Annotated[str, typer.Option(help="Comma-separated sentences a second, one run each.")] = "5,10,20,40,80,160",
    seconds: Annotated[int, typer.Option(min=1, help="Duration of each run.")] = 30,
    host: Annotated[str, typer.Option(help="Address of the server.")] = "http://127.0.0.1:5000",
    options: Annotated[str, typer.Option(help="More fields of each request, as JSON.")] = "{}",
) -> None:
    """Run each rate, and write the curve."""
    try:
        wanted = [float(rate) for rate in rates.split(",")]
        json.loads(options)
    except ValueError as error:
        raise typer.BadParameter(f"--rates or --options: {error}") from None
    if not all(0 < rate < math.inf for rate in wanted):
        raise typer.BadParameter("--rates: numbers above 0 with commas in between")
    try:
        _generated_tokens(host)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise typer.BadParameter(f"--host: {host} does not report its metrics: {error}") from None
    directory.mkdir(parents=True, exist_ok=True)
    points: list[Point] = []
    for rate in wanted:
        points.append(_measure(host, rate, seconds, options))
        typer.echo(json.dumps(points[-1]._asdict()))
        _write(points, directory)


def _measure(host: str, rate: float, seconds: int, options: str) -> Point:
    environment = Environment(parsed_options=Namespace(options=options))
    environment.create_local_runner()  # counts the requests
    _User.host = host
    user, running = _User(environment), Group()
    tokens, begin = _generated_tokens(host), time.monotonic()
    started, next_at = 0, begin
    while (next_at := next_at + random.expovariate(rate)) < begin + seconds:
        # From the planned moment, not from now: a generator that lags behind catches up.
        gevent.sleep(max(0.0, next_at - time.monotonic()))
        running.spawn(user.read_stream, sentence())
        started += 1
    gevent.sleep(max(0.0, begin + seconds - time.monotonic()))
    duration = time.monotonic() - begin
    streams, refusals = environment.stats.get(STREAM, "POST"), environment.stats.get(REFUSED, "POST")
    ok, unfinished = streams.num_requests - streams.num_failures, len(running)
    tokens = _generated_tokens(host) - tokens
    running.join(timeout=_LAST_ONES_SECONDS)
    times = [
        row.get_response_time_percentile(percent) if row.num_requests else None
        for row in (environment.stats.get(FIRST_TOKEN, "SSE"), streams)
        for percent in (0.5, 0.99)
    ]
    failed = streams.num_failures + len(running)
    per_second = (started / duration, ok / duration, tokens / duration)
    return Point(rate, duration, *per_second, unfinished, refusals.num_requests, failed, *times)


def _generated_tokens(host: str) -> float:
    answer = httpx.get(f"{host}/metrics", timeout=60.0).raise_for_status()
    return Metrics(answer.text).total("dragoman_generated_tokens_total")


def _write(points: Sequence[Point], directory: Path) -> None:
    """Write the curve so far as a table and as JSON."""
    with (directory / "curve.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Point._fields)
        writer.writerows(points)
    curve: list[dict[str, Any]] = [each._asdict() for each in points]
    (directory / "curve.json").write_text(json.dumps(curve, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
