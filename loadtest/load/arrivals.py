"""One rate of `loadtest.load.saturation`, for `locust -f`: sentences at random moments, and their outcome as JSON.

Requests that have begun run to their end, and their times count. Tokens and responses after the window do not: they
would be more than the server does in so many seconds.
"""

import json
import math
import time
from pathlib import Path
from typing import NamedTuple

import gevent
from locust import events
from locust.argument_parser import LocustArgumentParser
from locust.stats import StatsEntry

from loadtest.load.users import FIRST_TOKEN, REFUSED, STREAM, PoissonUser, sentence
from loadtest.metrics import Metrics


def _add_options(parser: LocustArgumentParser) -> None:
    parser.add_argument("--outcome", required=True, help="The JSON's file")
    # Not --run-time: that begins before there is a user.
    parser.add_argument("--window", type=float, required=True, help="Seconds in which sentences arrive")


events.init_command_line_parser.add_listener(_add_options)  # type: ignore[no-untyped-call]


class Moment(NamedTuple):
    """Counts from the start until one moment."""

    at: float
    started: int
    ended: int
    ok: int
    tokens: float
    """NaN if the server did not report them."""


class Arrivals(PoissonUser):
    """The only user of its run."""

    last_ones_seconds = 150.0  # the server's deadline is earlier

    def on_start(self) -> None:
        self._started = 0
        self._begin = self._moment()
        super().on_start()
        assert self.environment.runner is not None
        gevent.spawn_later(self.environment.parsed_options.window, self.environment.runner.quit)

    def translate(self) -> None:
        self._started += 1
        self.read_stream(sentence())

    def on_stop(self) -> None:
        end = self._moment()
        super().on_stop()
        begin, last = self._begin, self._moment()
        seconds = end.at - begin.at
        streams, refused = self._row("POST", STREAM), self._row("POST", REFUSED)
        tokens_per_second = (end.tokens - begin.tokens) / seconds
        outcome: dict[str, float | None] = {
            "seconds": seconds,
            "started_per_second": (end.started - begin.started) / seconds,
            "ok_per_second": (end.ok - begin.ok) / seconds,
            "tokens_per_second": None if math.isnan(tokens_per_second) else tokens_per_second,
            "unfinished": end.started - end.ended,
            "refused": refused.num_requests,
            "failed": streams.num_failures + last.started - last.ended,
        }
        for name, row in (("first_token", self._row("SSE", FIRST_TOKEN)), ("whole", streams)):
            for percent in (50, 99):
                waited = row.get_response_time_percentile(percent / 100) if row.num_requests else None
                outcome[f"{name}_p{percent}"] = waited
        Path(self.environment.parsed_options.outcome).write_text(json.dumps(outcome), encoding="utf-8")

    def _moment(self) -> Moment:
        tokens = self._tokens()
        streams, refused = self._row("POST", STREAM), self._row("POST", REFUSED)
        ok = streams.num_requests - streams.num_failures
        return Moment(time.monotonic(), self._started, streams.num_requests + refused.num_requests, ok, tokens)

    def _tokens(self) -> float:
        answer = self.client.get("/metrics")
        if answer.status_code != 200:
            return math.nan
        return Metrics(answer.text or "").total("dragoman_generated_tokens_total")

    def _row(self, method: str, name: str) -> StatsEntry:
        row: StatsEntry = self.environment.stats.get(name, method)
        return row
