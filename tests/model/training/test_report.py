"""The log: speeds of steps alone, and rows in order after a run that died."""

import csv
from pathlib import Path

import pytest

from model.training.report import COLUMNS, Report, RunLog


def _rows(directory: Path) -> list[dict[str, str]]:
    with (directory / "log.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def _report(step: int, loss: float = 1.0) -> Report:
    return Report(step, loss, 1e-3, tokens=5000, all_tokens=50 * step, hours=step / 1000)


def _write(directory: Path, first: int, last: int, loss: float = 1.0) -> None:
    with RunLog(directory, 400, first) as log:
        for step in range(first + 100, last + 1, 100):
            log.steps(_report(step, loss))


def test_a_report_is_a_row(tmp_path: Path) -> None:
    _write(tmp_path, 0, 100, loss=3.0)
    [row] = _rows(tmp_path)
    assert tuple(row) == COLUMNS
    assert (row["step"], row["tokens"], row["hours"], row["loss"]) == ("100", "5000", "0.1", "3")
    assert row["learning_rate"] == "0.001"
    assert row["validation_loss"] == ""


def test_the_time_of_a_validation_is_none_of_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of a second a step of 50 tokens, and a validation of 1,000 seconds after each report."""
    now = 0.0
    monkeypatch.setattr("time.perf_counter", lambda: now)
    with RunLog(tmp_path, 300, 0) as log:
        for step in (100, 200, 300):
            now += 10
            log.steps(_report(step))
            now += 1000
            log.validation(step, 2.0)
    speeds = [float(row["tokens_per_second"]) for row in _rows(tmp_path) if row["tokens_per_second"]]
    assert speeds == [pytest.approx(500, rel=1e-3)] * 3


def test_a_resumed_run_forgets_the_rows_that_it_will_write_again(tmp_path: Path) -> None:
    _write(tmp_path, 0, 300)
    _write(tmp_path, 200, 400, loss=2.0)
    found = [(row["step"], row["loss"]) for row in _rows(tmp_path)]
    assert found == [("100", "1"), ("200", "1"), ("300", "2"), ("400", "2")]


@pytest.mark.parametrize("rest", ["20", "200,0.1,5", "200,0.1,10000,1,0.001,500,", " ", "\0\0\n"])
def test_a_resumed_run_forgets_a_row_that_was_cut_off(tmp_path: Path, rest: str) -> None:
    _write(tmp_path, 0, 100)
    with (tmp_path / "log.csv").open("a") as file:
        file.write(rest)
    _write(tmp_path, 200, 300)
    assert [row["step"] for row in _rows(tmp_path)] == ["100", "300"]
