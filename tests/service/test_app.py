"""What the composition root makes of the settings."""

import pytest

from model.manifest import load_config
from service import app
from service.metrics import Metrics
from service.settings import Settings


def test_each_replica_is_told_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """By which it finds its GPU."""
    monkeypatch.setattr(app, "EngineProcess", lambda options, *_: options)
    settings = Settings(replicas=3)
    config = load_config(settings.model)
    options = app.build_pool("en-fr", settings.model, config, settings, Metrics("0", "int8")).engines
    assert [each.replica for each in options] == [0, 1, 2]  # type: ignore[attr-defined]
