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


def test_frozen() -> None:
    settings = Settings(model=Path("x"))
    with pytest.raises(ValidationError, match="frozen"):
        settings.port = 1
