"""The figures that a comparison prints and writes."""

import io
import json

from rich.console import Console

from loadtest.compare.peers import Measured
from loadtest.compare.report import OURS, Comparison, Run, as_json, as_table

COMPARISON = Comparison(shape="small", threads=2, rounds=2, concurrency=[1, 4])
RUNS = [
    Run(OURS, 1, 1, Measured(tokens=100, seconds=1.0, first_token_seconds=[0.010, 0.020])),
    Run("peer", 1, 1, Measured(tokens=100, seconds=2.0)),
    Run(OURS, 4, 1, Measured(tokens=900, seconds=1.0, first_token_seconds=[0.5])),
    Run("peer", 4, 1, Measured(tokens=300, seconds=1.0)),
    Run(OURS, 1, 2, Measured(tokens=300, seconds=1.0, first_token_seconds=[0.030])),
    Run("peer", 1, 2, Measured(tokens=150, seconds=1.0)),
    Run(OURS, 4, 2, Measured(tokens=900, seconds=1.0, first_token_seconds=[0.5])),
    Run("peer", 4, 2, Measured(tokens=300, seconds=1.0)),
]


def test_json_has_ratio_by_peer_and_concurrency() -> None:
    report = json.loads(json.dumps(as_json(COMPARISON, RUNS)))

    assert report["ratio"] == {"peer": {"1": 2.0, "4": 3.0}}
    assert report["ratio_range"] == {"peer": {"1": [2.0, 2.0], "4": [3.0, 3.0]}}
    assert report["tokens_per_second"]["peer"]["1"] == {"median": 100.0, "lowest": 50.0, "highest": 150.0}


def test_first_tokens_of_all_rounds_count_and_only_of_peers_that_stream() -> None:
    report = as_json(COMPARISON, RUNS)

    assert report["time_to_first_token_seconds"] == {
        OURS: {"1": {"p50": 0.020, "p99": 0.030}, "4": {"p50": 0.5, "p99": 0.5}}
    }


def test_raw_figures_are_in_the_order_in_which_they_were_taken() -> None:
    raw = json.loads(json.dumps(as_json(COMPARISON, RUNS)))["raw"]

    assert [(run["peer"], run["concurrency"], run["round"]) for run in raw] == [
        (run.peer, run.concurrency, run.round) for run in RUNS
    ]
    assert raw[1] == {
        "peer": "peer",
        "concurrency": 1,
        "round": 1,
        "tokens": 100,
        "seconds": 2.0,
        "tokens_per_second": 50.0,
    }


def test_table_fits_a_terminal() -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(as_table(COMPARISON, RUNS))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()

    row = next(line for line in lines if "peer" in line and "100" in line)
    assert "100 (50-150)" in row
    assert "2.00 (2.00-2.00)" in row
