"""Routes: the models of each pair of languages."""

from typing import cast

from model.checkpoint_config import CheckpointConfig, Direction
from model.config import ModelConfig
from model.tokenizer import Tokenizer
from service.registry.model_version import FetchProgress, RemoteModel
from service.registry.routing import Route, Routes
from service.registry.served_model import ServedModel
from service.supervisor.pool import EnginePool


def _model(name: str, *directions: str, config: ModelConfig, tokenizer: Tokenizer) -> ServedModel:
    pairs = tuple(Direction(source=each[:2], target=each[3:]) for each in directions)
    described = CheckpointConfig(directions=pairs, model=config)
    return ServedModel(name, described, tokenizer, cast(EnginePool, None))


def _ways(found: Route | None) -> list[str]:
    assert found is not None
    return [f"{leg.model.name}:{leg.direction}" for leg in (found.first, found.second) if leg]


def test_the_shortest_route_is_taken(config: ModelConfig, tokenizer: Tokenizer) -> None:
    def model(name: str, *directions: str) -> ServedModel:
        return _model(name, *directions, config=config, tokenizer=tokenizer)

    routes = Routes(
        [
            model("z", "de-fr", "fr-de"),
            model("b", "de-en", "de-es", "es-it"),
            model("a", "de-en", "en-it", "en-fr"),
        ]
    )
    assert _ways(routes.find("de", "fr")) == ["z:de-fr"], "direct, if there is a model"
    assert _ways(routes.find("de", "en")) == ["a:de-en"], "the first by name"
    assert [f"{leg.model.name}:{leg.direction}" for leg in routes.unused] == ["b:de-en"]
    assert _ways(routes.find("de", "it")) == ["a:de-en", "a:en-it"], "by way of English rather than Spanish"
    assert _ways(routes.find("en", "de")) == ["a:en-fr", "z:fr-de"]
    assert routes.find("it", "de") is None
    assert routes.find("de", "de") is None, "not by way of French"
    assert routes.find("es", "fr") is None, "two steps at most"
    assert _ways(Routes([model("m", "de-sv", "sv-it", "de-da", "da-it")]).find("de", "it")) == ["m:de-da", "m:da-it"]


def test_directions_with_a_route_are_listed(config: ModelConfig, tokenizer: Tokenizer) -> None:
    def model(name: str, *directions: str) -> ServedModel:
        return _model(name, *directions, config=config, tokenizer=tokenizer)

    routes = Routes([model("b", "en-fr"), model("a", "fr-en", "de-en")])
    assert [str(each) for each in routes.directions] == ["fr-en", "de-en", "en-fr", "de-fr"]
    assert routes.targets == {"fr": {"en"}, "de": {"en", "fr"}, "en": {"fr"}}
    for source, targets in routes.targets.items():
        for target in ("de", "en", "fr"):
            assert (routes.find(source, target) is not None) == (target in targets)
    assert not Routes().targets


def test_a_remote_model_gets_the_directions_that_no_loaded_one_has(config: ModelConfig, tokenizer: Tokenizer) -> None:
    def remote(name: str, direction: str, *, is_here: bool = False) -> RemoteModel:
        async def fetch() -> None: ...

        pair = [Direction(source=direction[:2], target=direction[3:])]
        return RemoteModel(name, pair, is_here, fetch, lambda: FetchProgress("remote", None))

    local = [_model("a", "en-fr", "de-fr", config=config, tokenizer=tokenizer)]
    others = [remote("r-de-en", "de-en"), remote("r-en-fr", "en-fr"), remote("r-es-en", "es-en", is_here=True)]
    others += [remote("r-de-it", "de-it"), remote("r-it-fr", "it-fr"), remote("r-en-es", "en-es")]
    routes = Routes(local, others)
    missing = {
        (source, target): ([each.name for each in plan.missing], plan.pivot)
        for source, target in [("en", "fr"), ("de", "fr"), ("de", "en"), ("es", "fr"), ("de", "es"), ("en", "en")]
        for plan in [routes.plan(source, target)]
    }
    assert missing == {
        ("en", "fr"): ([], None),
        ("de", "fr"): ([], None),
        ("de", "en"): (["r-de-en"], None),
        ("es", "fr"): (["r-es-en"], "en"),
        ("de", "es"): (["r-de-en", "r-en-es"], "en"),
        ("en", "en"): ([], None),
    }
    assert routes.find("de", "en") is None
    assert routes.languages == {"de", "en", "es", "fr", "it"}
    assert routes.targets["es"] == {"en", "fr"}
    assert routes.downloadable["de"] == {"en", "it", "es"}
    assert routes.downloadable["es"] == frozenset(), "the one that it needs is on the disk"
    assert {str(each) for each in routes.directions} >= {"en-fr", "de-en", "es-fr"}
