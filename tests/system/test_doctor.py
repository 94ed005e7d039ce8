"""`dragoman doctor`: a healthy installation, and one that is not."""

import json
from pathlib import Path

import pytest
import torch

from service.cli.doctor import examine, visible_settings
from service.errors import EngineFailed
from service.process.hardware import usable_cores
from service.settings import EMBEDDED_MODEL, Settings
from tests.system.commands import dragoman
from tests.system.conftest import COMPILES


@pytest.fixture
def no_self_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start no engines for what is said of settings alone."""

    async def nothing(*_: object) -> None: ...

    monkeypatch.setattr("service.cli.doctor._self_test", nothing)


def test_what_works_is_tried_out() -> None:
    done = dragoman("doctor", "--json", "--seconds", "0.2", "--replicas", "1", "--slots", "4")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["pytorch"] == torch.__version__
    assert report["processor"]["cores"] == usable_cores()
    assert (report["processor"]["operators"] is not None) is COMPILES
    models = report["models"]
    assert [(each["name"], each["state"], each["directions"]) for each in models] == [
        ("en-fr", "ready", ["en-fr"]),
        ("fr-en", "ready", ["fr-en"]),
    ]
    assert all(each["max_sentence_tokens"] > 0 for each in models)
    assert [speed["at_once"] for speed in report["speeds"]] == [1, 4]
    for speed in report["speeds"]:
        assert speed["tokens_per_second"] > 0
        assert speed["first_token_milliseconds"] > 0
    assert report["settings"]["slots"] == 4
    assert report["given"] == ["replicas", "slots"]
    assert report["problems"] == []


def test_what_is_broken_is_reported(tmp_path: Path) -> None:
    done = dragoman("doctor", "--models", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr == f"dragoman: {tmp_path}: there is no checkpoint in it\n"
    assert f"models={tmp_path}" in done.stdout


@pytest.mark.parametrize(("cores", "noted"), [(2, []), (5, []), (6, []), (7, ["--replicas 3"]), (16, ["--replicas 7"])])
@pytest.mark.usefixtures("no_self_test")
def test_cores_without_an_engine_are_noted(cores: int, noted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.cli.doctor.usable_cores", lambda: cores)
    report = examine(Settings(replicas=2, threads=2), 0.2)
    assert [note[-len("--replicas 7") :] for note in report.notes if "cores" in note] == noted


def test_a_broken_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "en-fr").symlink_to(EMBEDDED_MODEL)
    (tmp_path / "broken.argosmodel").write_text("no package")
    report = examine(Settings(models=tmp_path, replicas=1), 0.2)
    [problem] = report.problems
    assert problem.startswith("broken.argosmodel: ")
    assert report.speeds


def test_a_self_test_that_fails_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    async def failed(*_: object) -> None:
        raise EngineFailed("it died")

    monkeypatch.setattr("service.cli.doctor._translated", failed)
    assert examine(Settings(replicas=1), 0.2).problems == ["a translation failed: it died"]


@pytest.mark.usefixtures("no_self_test")
def test_what_traces_want_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ImportError

    monkeypatch.setattr("service.observability.tracing.exporter", missing)
    [problem] = examine(Settings(traces=True), 0.2).problems
    assert problem.startswith("traces: OpenTelemetry is missing")


def test_a_secret_is_not_shown() -> None:
    address = "redis://user:hidden@127.0.0.1:6379/0"
    settings = Settings.model_validate({"redis_url": address, "stream_secret": "hidden" * 3})
    visible = visible_settings(settings)
    assert visible["redis_url"] == "***"
    assert "hidden" not in str(visible) + repr(settings.stream_secret)
