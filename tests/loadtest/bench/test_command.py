"""`python -m loadtest.bench` as a user calls it, the measuring itself left out."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from loadtest.bench import __main__ as command
from loadtest.bench import machine
from loadtest.bench.__main__ import app
from loadtest.bench.peers import Answer, Comparison, Measured, WrongLength
from loadtest.bench.report import Result as Figures
from loadtest.bench.report import Run
from model.config import ModelConfig


class _Measure:
    """Remembers what was asked for; every run has the same figures."""

    comparison: Comparison
    config: ModelConfig
    error: Exception | None = None

    def __call__(self, comparison: Comparison, config: ModelConfig, progress: object) -> Figures:
        if self.error is not None:
            raise self.error
        self.comparison, self.config = comparison, config
        measured = Measured(50, 1.0, [Answer(0.1, [0.2])])
        runs = [Run(peer, level, 1, measured) for peer in comparison.peers for level in comparison.concurrency]
        return Figures(runs, dict.fromkeys(comparison.peers, 1))


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> _Measure:
    fake = _Measure()
    monkeypatch.setattr(command, "measure", fake)
    monkeypatch.setattr(command, "find_spec", lambda name: name)
    monkeypatch.setattr(machine, "load_average", lambda: [0.0, 0.0, 0.0])
    return fake


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_what_is_asked_for(measured: _Measure, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = _run("--shape", "base", "--against", "ctranslate2,transformers", "--concurrency", "1,4", "--json", str(file))
    report = json.loads(file.read_text())

    assert done.exit_code == 0, done.output
    assert measured.comparison.peers == ["dragoman", "ctranslate2", "transformers"]
    assert report["ratio"] == {"ctranslate2": {"1": 1.0, "4": 1.0}, "transformers": {"1": 1.0, "4": 1.0}}
    assert report["machine"]["load_average_at_end"] == [0.0, 0.0, 0.0]
    assert (measured.config.d_model, measured.config.vocab_size) == (512, 32000)
    assert "busy" not in done.output


@pytest.mark.parametrize(("concurrency", "slots"), [("1,300", 300), ("1,4", 64)])
def test_there_are_slots_for_all(measured: _Measure, concurrency: str, slots: int) -> None:
    _run("--shape", "base", "--cores", "1", "--concurrency", concurrency)
    assert measured.comparison.slots == slots


def test_unequal_work_ends_it_without_figures(measured: _Measure, tmp_path: Path) -> None:
    measured.error = WrongLength("ctranslate2: 3 tokens for a request of 5")
    done = _run("--shape", "base", "--json", str(tmp_path / "figures.json"))

    assert done.exit_code == 2
    assert "dragoman: ctranslate2: 3 tokens for a request of 5" in done.output
    assert not list(tmp_path.iterdir())
