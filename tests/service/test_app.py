"""The composition root: the objects that it builds from the settings."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from model.checkpoint_config import load_config
from service import app
from service.observability.metrics import Metrics
from service.settings import EMBEDDED_MODEL, Settings, UnusableSettingError


def test_each_replica_is_told_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of a replica selects its GPU."""
    monkeypatch.setattr(app, "EngineProcess", lambda *arguments: SimpleNamespace(arguments=arguments))
    settings = Settings(replicas=3)
    config = load_config(EMBEDDED_MODEL)
    engines = app.build_pool("en-fr", EMBEDDED_MODEL, config, settings, Metrics("0", "int8")).engines
    fork_servers, numbers, *_ = zip(*(vars(each)["arguments"] for each in engines), strict=True)
    assert numbers == (0, 1, 2)
    assert len({*fork_servers}) == 1


def test_a_place_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(UnusableSettingError, match=f"^glossaries: .*{file}"):
        app.build_service(Settings(glossaries=file / "glossaries"))

    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "model.bin").touch()
    with pytest.raises(UnusableSettingError, match=f"^model: .*{file}"):
        app.build_service(Settings(model=foreign))
