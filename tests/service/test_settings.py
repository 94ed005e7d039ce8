from pathlib import Path

import pytest
from pydantic import ValidationError
from pydantic_settings import CliApp

from service.settings import Settings


def test_flags_over_environment_over_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_SLOTS", "7")
    monkeypatch.setenv("DRAGOMAN_PORT", "6001")
    settings = CliApp.run(Settings, cli_args=["--port", "6002", "--max-waiting", "3"])
    assert (settings.slots, settings.port, settings.max_waiting) == (7, 6002, 3)
    assert settings.host == "127.0.0.1"


def test_a_wrong_value_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_SLOTS", "many")
    with pytest.raises(ValidationError, match="slots"):
        Settings()


def test_replicas_are_as_many_as_cores_up_to_four(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limit = tmp_path / "cpu.max"
    monkeypatch.setattr("service.settings._CPU_LIMIT", limit)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(3)), raising=False)
    assert Settings().replicas == 3
    for line, expected in (("max 100000", 3), ("200000 100000", 2), ("50000 100000", 1), ("900000 100000", 3)):
        limit.write_text(line)
        assert Settings().replicas == expected
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(64)), raising=False)
    limit.unlink()
    assert Settings().replicas == 4
    assert Settings(threads=20).replicas == 3
    assert Settings(threads=100).replicas == 1
    assert Settings(replicas=9).replicas == 9


def test_frozen() -> None:
    settings = Settings(model=Path("x"))
    with pytest.raises(ValidationError, match="frozen"):
        settings.port = 1
