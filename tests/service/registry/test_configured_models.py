"""The models that the settings name, before any of them is loaded."""

from pathlib import Path

import pytest

from model.tokenizer import Tokenizer
from service.registry.configured_models import configured_models
from service.registry.model_version import State
from service.registry.scan import FoundModel
from service.registry.served_model import ServedModel
from service.settings import Settings, UnusableSettingError
from tests.system.models import write_model


def _build_nothing(found: FoundModel, path: Path) -> ServedModel:
    raise AssertionError(f"{found.name} is not to be read yet")


def test_models_of_a_directory_and_named_ones_are_read_later(tokenizer: Tokenizer, tmp_path: Path) -> None:
    write_model(tmp_path / "model", tokenizer, "de-en")
    [found] = configured_models(Settings(models=tmp_path), _build_nothing)
    assert (found.name, found.state, found.model) == ("model", State.LOADING, None)

    names = f"argos:en-de,{tmp_path / 'model'}"
    now = configured_models(Settings.model_validate({"models": names}), _build_nothing)
    later = configured_models(Settings.model_validate({"models": names, "on_demand": True}), _build_nothing)
    assert [each.state for each in now] == [State.DOWNLOADING, State.LOADING]
    assert [each.state for each in later] == [State.REMOTE, State.LOADING]


def test_a_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "model.bin").touch()
    with pytest.raises(UnusableSettingError, match=f"^model: .*{file}"):
        configured_models(Settings(model=foreign), _build_nothing)
