"""The composition root: the objects that it builds from the settings."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from model.checkpoint_config import CheckpointError, load_config
from model.tokenizer import Tokenizer
from service.engine.messages import TokenReport
from service.observability.metrics import Metrics
from service.registry.registry import ModelRegistry
from service.registry.scan import FoundModel
from service.registry.served_model import ServedModel
from service.server import composition
from service.server.composition import ModelBuilder
from service.settings import EMBEDDED_MODEL, Settings, UnusableSettingError
from service.supervisor.cache import CacheObserver, SegmentStore
from tests.generation_requests import generation_request
from tests.system.models import write_model


def test_each_replica_gets_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of a replica selects its GPU."""
    monkeypatch.setattr(composition, "EngineProcess", lambda *arguments: SimpleNamespace(arguments=arguments))
    settings = Settings(replicas=3)
    config = load_config(EMBEDDED_MODEL)
    options = composition.engine_options(EMBEDDED_MODEL, config, settings)
    engines = ModelBuilder(settings, Metrics("0", "int8")).pool("en-fr", options).engines
    fork_servers, numbers, *_ = zip(*(vars(each)["arguments"] for each in engines), strict=True)
    assert numbers == (0, 1, 2)
    assert len({*fork_servers}) == 1


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(UnusableSettingError, match=f"^glossaries: .*{file}"):
        composition.build_service(Settings(glossaries=file / "glossaries"))


async def test_only_the_same_weights_in_the_same_mode_share_results(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """A model that is loaded again has its results still; one that takes its place has none of them."""
    for name, seed in (("model", 0), ("again", 0), ("other", 1)):
        write_model(tmp_path / name, tokenizer, "de-en", seed=seed)
    store = SegmentStore(1_000_000, CacheObserver())
    request = generation_request([5, 2], 9)

    def is_kept(name: str, **settings: Any) -> bool:
        found = FoundModel("model", tmp_path / name, "")
        model = ModelBuilder(Settings(**settings), Metrics("0", "int8"), store).build(found, tmp_path / name)
        generation = model.pool.submit(request, "").generation
        if not generation.finished:
            [shared] = model.pool.engines[0].requests.in_flight
            shared.deliver(TokenReport(0, 2, -0.1, "stop"))
        return model.pool.load == 0

    assert [is_kept("model", replicas=1), is_kept("again", replicas=1)] == [False, True]
    assert [is_kept("other", replicas=1), is_kept("model", replicas=1, mode="fp32")] == [False, False]


def test_a_shortlist_is_part_of_what_is_kept(tokenizer: Tokenizer, tmp_path: Path) -> None:
    write_model(tmp_path / "model", tokenizer, "de-en", with_shortlist=True)
    store = SegmentStore(1_000_000, CacheObserver())
    found = FoundModel("model", tmp_path / "model", "")

    def submit(**settings: Any) -> ServedModel:
        model = ModelBuilder(Settings(replicas=1, **settings), Metrics("0", "int8"), store).build(
            found, tmp_path / "model"
        )
        model.pool.submit(generation_request([5, 2], 9), "")
        return model

    first = submit(shortlist=True)
    [shared] = first.pool.engines[0].requests.in_flight
    shared.deliver(TokenReport(0, 2, -0.1, "stop"))
    again, without = submit(shortlist=True), submit()
    assert [model.uses_shortlist for model in (first, again, without)] == [True, True, False]
    assert [again.pool.load, without.pool.load] == [0, 1]


def test_a_model_without_a_shortlist(tokenizer: Tokenizer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The only model needs one; among several, such a model writes all words."""
    write_model(tmp_path / "model", tokenizer, "de-en")
    with pytest.raises(CheckpointError, match=f"^{tmp_path}/model: shortlist: the model has none"):
        composition.build_service(Settings(model=tmp_path / "model", shortlist=True))
    found, several = FoundModel("de-en", tmp_path / "model", ""), Settings(models=tmp_path, shortlist=True)
    with caplog.at_level("INFO"):
        model = ModelBuilder(several, Metrics("0", "int8")).build(found, tmp_path / "model")
    assert not model.uses_shortlist
    assert "model has no shortlist and writes all words" in caplog.messages


def test_without_the_cache_nothing_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[FoundModel] = []
    monkeypatch.setattr(ModelRegistry, "request_load", lambda self, found: wanted.append(found))
    [version] = composition.build_service(Settings(model=EMBEDDED_MODEL, cache_mb=0)).library.versions
    assert version.model is not None
    for _ in range(2):
        version.model.pool.submit(generation_request([5, 2], 9), "")
    assert version.model.pool.load == 2
    assert wanted == [version.found] * 2
