"""Models that are fetched at the first request for them, tested with fetches that only wait."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from model.checkpoint_config import Direction, Origin
from model.tokenizer import Tokenizer
from service.errors import NotReady
from service.hub.errors import HubError, TemporaryHubError
from service.hub.names import HubIndex, HubName, HubOptions, parse_name
from service.hub.store import Sizes, Store
from service.registry import loading, public_models
from service.registry.memory_budget import MemoryBudget
from service.registry.model_version import ModelVersion, RemoteModel, State
from service.registry.public_models import OnDemandModels, PublicModels
from service.registry.registry import ModelRegistry
from service.registry.scan import FoundModel
from service.registry.served_model import ServedModel
from tests.service.registry.test_reloading import Model
from tests.system.models import write_model

NAME = parse_name("argos:en-de")
PAIR = [Direction(source="en", target="de")]


class Pulls:
    """A download that waits until it may go on, and then ends with an error or a path."""

    def __init__(self, result: Path | Exception) -> None:
        self.result = result
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.count = 0

    async def __call__(self, *_: object) -> Path:
        self.count += 1
        self.begun.set()
        await self.may_end.wait()
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.fixture
def pulls(monkeypatch: pytest.MonkeyPatch) -> Pulls:
    pulls = Pulls(Path("anywhere"))
    monkeypatch.setattr(loading, "pull_in_background", pulls)
    monkeypatch.setattr(loading, "estimated_bytes", lambda path, engines: 0)
    return pulls


@pytest.fixture
def library(tokenizer: Tokenizer) -> ModelRegistry:
    version = ModelVersion(FoundModel(str(NAME), NAME, ""), State.REMOTE, directions=PAIR)
    return ModelRegistry([version], lambda found, path: Model(tokenizer), MemoryBudget())


def _remote(library: ModelRegistry) -> RemoteModel:
    [model] = library.routes.plan("en", "de").missing
    return model


async def _fetch(library: ModelRegistry) -> None:
    await _remote(library).fetch()


async def test_requests_share_a_fetch_and_it_goes_on_without_them(library: ModelRegistry, pulls: Pulls) -> None:
    library.start()
    await library.wait_until_tried()
    assert library.ready
    first, second = (asyncio.create_task(_fetch(library)) for _ in range(2))
    await pulls.begun.wait()
    assert _remote(library).progress().step == "downloading"
    first.cancel()
    pulls.may_end.set()
    await second
    assert pulls.count == 1
    [version] = library.versions
    assert (version.state, version.offered) == (State.READY, True)
    assert library.routes.plan("en", "fr").missing == (), "the directions are now those of the model"
    await library.stop()


async def test_a_passing_failure_is_reported_and_tried_again_later(
    library: ModelRegistry, pulls: Pulls, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulls.result = TemporaryHubError("no network")
    pulls.may_end.set()
    library.start()
    await library.wait_until_tried()
    for _ in range(2):
        with pytest.raises(NotReady, match=r"^argos:en-de: no network$"):
            await _remote(library).fetch()
    assert pulls.count == 1, "the second request comes before the next attempt"
    [version] = library.versions
    assert (version.state, library.ready) == (State.REMOTE, True)
    version.retry_at = 0.0
    pulls.result = Path("anywhere")
    await _remote(library).fetch()
    assert (version.state, version.reason) == (State.READY, None)
    await library.stop()


async def test_a_model_that_can_never_be_had_is_taken_off_the_list(library: ModelRegistry, pulls: Pulls) -> None:
    pulls.result = HubError("its format is not supported")
    pulls.may_end.set()
    library.start()
    await library.wait_until_tried()
    with pytest.raises(NotReady, match="its format is not supported"):
        await _remote(library).fetch()
    assert library.routes.languages == frozenset()
    assert [each.state for each in library.versions] == [State.FAILED]
    await library.stop()


async def test_an_index_that_cannot_be_read_is_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models that are on the disk are offered meanwhile."""
    here, there = parse_name("argos:de-en"), parse_name("argos:en-de")
    listings: list[Exception | Mapping[HubName, Sequence[Direction]]] = [TemporaryHubError("no network")]
    listed = {here: [Direction(source="de", target="en")], there: PAIR}

    async def list_in_background(*_: object) -> Mapping[HubName, Sequence[Direction]]:
        result = listings.pop(0) if listings else listed
        if isinstance(result, Exception):
            raise result
        return result

    cached: dict[HubName, Sequence[Direction]] = {}
    monkeypatch.setattr(public_models, "list_in_background", list_in_background)
    monkeypatch.setattr(public_models, "cached_models", lambda index: cached)
    monkeypatch.setattr(public_models, "_RETRY_SECONDS", 0.01)

    def nothing(*_: object) -> ServedModel:
        raise AssertionError

    public = PublicModels(HubOptions(), HubIndex("argos"))
    library = ModelRegistry([], nothing, MemoryBudget(), public=public)
    library.start()
    async with asyncio.timeout(20):
        await library._tried.wait()
        assert (library.ready, library.why_not_ready) == (False, "no network")
        while not library.ready:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert {each.name: each.state for each in library.versions} == {str(here): State.REMOTE, str(there): State.REMOTE}
    await library.stop()

    cached[here] = listed[here]
    library = ModelRegistry([], nothing, MemoryBudget(), public=PublicModels(HubOptions(offline=True), public.index))
    library.start()
    await library.wait_until_tried()
    assert {each.name: each.state for each in library.versions} == {str(here): State.UNLOADED}
    assert library.routes.downloadable == {"de": frozenset()}
    await library.stop()


async def test_a_fetch_that_comes_when_the_model_is_here_does_nothing(library: ModelRegistry, pulls: Pulls) -> None:
    """Routes are snapshots: a request may have one from before the end of another request's fetch."""
    library.start()
    await library.wait_until_tried()
    late = _remote(library)
    pulls.may_end.set()
    await _remote(library).fetch()
    await late.fetch()
    [version] = library.versions
    assert (pulls.count, version.offered, version.state) == (1, True, State.READY)
    assert library.routes.targets
    await library.stop()


async def test_an_unexpected_error_of_the_index_is_a_problem_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def list_in_background(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(public_models, "list_in_background", list_in_background)
    monkeypatch.setattr(public_models, "cached_models", lambda index: {})
    models = OnDemandModels(PublicModels(HubOptions(), HubIndex("argos")), [], _never, lambda: None)
    await models.offer()
    assert models.problem is not None
    assert "Too many open files" in models.problem


@pytest.mark.parametrize("pinned", ["argos:en-de", "argos:en-de@1.0"])
async def test_only_idle_models_that_are_offered_on_demand_leave_the_disk(
    pinned: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokenizer: Tokenizer
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(public_models, "_IDLE_SECONDS", 0.0)
    for each in ("argos:en-de", "argos:en-fr"):
        made = tmp_path / each
        write_model(made, tokenizer, "en-de")
        (tmp_path / "dragoman" / "hub").mkdir(parents=True, exist_ok=True)
        Store().keep(made, Origin(name=each, revision="1.0", url="http://nowhere"))
    name = parse_name(pinned)
    version = ModelVersion(FoundModel(pinned, name, ""), State.UNLOADED, offered=True, directions=PAIR)
    version.model = model = Model(tokenizer)
    models = OnDemandModels(PublicModels(HubOptions(), None, 1), [version], _never, lambda: None)

    model.acquire("a request")
    await models.shrink_cache()
    assert Store().find(name) is not None
    sizes = Store.sizes

    def begin_a_request(self: Store, names: Sequence[HubName]) -> Sizes:
        model.acquire("one that comes during the measurement")
        return sizes(self, names)

    model.release("a request")
    with monkeypatch.context() as patched:
        patched.setattr(Store, "sizes", begin_a_request)
        await models.shrink_cache()
    assert (Store().find(name) is not None, version.offered) == (True, True)

    model.release("one that comes during the measurement")
    await models.shrink_cache()
    assert (Store().find(name), version.offered, version.state) == (None, False, State.REMOTE)
    assert [each.origin.name for each in Store().entries()] == ["argos:en-fr"], "this server does not offer it"


def _never(version: ModelVersion) -> asyncio.Task[None]:
    raise AssertionError
