"""The figures that a comparison prints and writes."""

import json
from dataclasses import replace

import pytest

from loadtest.bench.peers import Answer, Measured
from loadtest.bench.report import Result, Run, Spread, as_json, ratio
from loadtest.bench.roster import OURS
from tests.loadtest.bench.toy import COMPARISON as TOY_COMPARISON

COMPARISON = replace(TOY_COMPARISON, peers=[OURS, "peer"])


def _measured(tokens: int, seconds: float, firsts: list[float], gaps: tuple[float, ...] = ()) -> Measured:
    return Measured(tokens, seconds, [Answer(first, list(gaps)) for first in firsts])


RUNS = [
    Run(OURS, 1, 1, _measured(100, 1.0, [0.010, 0.020], (0.001, 0.003))),
    Run("peer", 1, 1, _measured(100, 2.0, [0.1])),
    Run(OURS, 4, 1, _measured(900, 1.0, [0.5])),
    Run("peer", 4, 1, _measured(300, 1.0, [0.6])),
    Run(OURS, 1, 2, _measured(300, 1.0, [0.030], (0.002,))),
    Run("peer", 1, 2, _measured(150, 1.0, [0.2])),
    Run(OURS, 4, 2, _measured(900, 1.0, [0.5])),
    Run("peer", 4, 2, _measured(300, 1.0, [0.6])),
]
RESULT = Result(RUNS, {OURS: 300_000_000, "peer": 200_000_000})


def test_ratios_and_waits_of_a_comparison() -> None:
    """A peer that gives whole batches has nothing between tokens."""
    report = json.loads(json.dumps(as_json(COMPARISON, RESULT, {"cpu": "abacus"})))
    assert report["ratio"] == {"peer": {"1": 2.0, "4": 3.0}}
    assert report["ratio_range"] == {"peer": {"1": [2.0, 2.0], "4": [3.0, 3.0]}}
    ours, theirs = report["raw"][:2]
    assert ours["time_to_first_token_seconds"] == pytest.approx({"p50": 0.015, "p99": 0.0199})
    # Two requests with two gaps each.
    assert ours["inter_token_seconds"] == pytest.approx({"p50": 0.002, "p99": 0.003})
    assert theirs["inter_token_seconds"] == {"p50": None, "p99": None}


def test_a_ratio_is_of_the_medians_and_its_range_of_the_rounds() -> None:
    # Rounds: 200/100, 100/50, 900/90. Medians: 200 and 90.
    assert ratio([200.0, 100.0, 900.0], [100.0, 50.0, 90.0]) == Spread(200 / 90, 2.0, 10.0)
    with pytest.raises(ValueError, match="zip"):
        ratio([1.0, 2.0], [1.0])
