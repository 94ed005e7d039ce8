"""The log: speeds of steps alone, and rows in order after a run that died."""

import csv
from pathlib import Path

import pytest

from model.training.report import RunLog


def _rows(directory: Path) -> list[dict[str, str]]:
    with (directory / "log.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_time_of_a_validation_is_none_of_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of a second a step of 50 tokens, and a validation of 1,000 seconds in the middle of a window."""
    now = 0.0
    monkeypatch.setattr("time.perf_counter", lambda: now)
    with RunLog(tmp_path, 300, 0) as log:
        for step in range(1, 301):
            now += 0.1
            log.step(step, 1.0, 1e-3, 50)
            if step == 150:
                now += 1000
                log.validation(step, 2.0)
    speeds = [float(row["tokens_per_second"]) for row in _rows(tmp_path) if row["tokens_per_second"]]
    assert speeds == [pytest.approx(500, rel=1e-3)] * 3


def test_a_resumed_run_forgets_the_rows_that_it_will_write_again(tmp_path: Path) -> None:
    for first, last in ((0, 300), (200, 400)):
        with RunLog(tmp_path, 400, first) as log:
            for step in range(first + 1, last + 1):
                log.step(step, float(first), 1e-3, 50)
    assert [(row["step"], row["loss"]) for row in _rows(tmp_path)] == [
        ("100", "0"), ("200", "0"), ("300", "200"), ("400", "200"),
    ]  # fmt: skip


def test_the_last_steps_have_a_row_too(tmp_path: Path) -> None:
    for first, last in ((0, 130), (130, 160)):
        with RunLog(tmp_path, 200, first) as log:
            for step in range(first + 1, last + 1):
                log.step(step, float(step), 1e-3, 50)
    assert [(row["step"], row["loss"]) for row in _rows(tmp_path)] == [
        ("100", "50.5"),
        ("130", "115.5"),
        ("160", "145.5"),
    ]


def test_without_a_directory_it_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with RunLog(None, 100, 0, tensorboard=True) as log:
        log.step(1, 1.0, 1e-3, 50)
        log.validation(1, 2.0)
    assert capsys.readouterr() == ("", "")
