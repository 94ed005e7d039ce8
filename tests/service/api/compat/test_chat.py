"""The languages in the name of a model of OpenAI's clients."""

from types import SimpleNamespace
from typing import Any

import pytest

from model.checkpoint_config import Direction
from service.api.compat.chat import Chunks, describe_model, direction_of
from service.api.compat.chat_schemas import ChatRequest
from service.api.context import ServiceContext
from service.errors import InvalidRequest, NotReady, UnknownModel
from service.registry.model_version import FetchProgress, RemoteModel
from service.registry.routing import Routes
from service.translation.events import ModelLoading, TokenGenerated
from service.translation.translator import Translator
from tests.service.translation.noted import LIMITS, Offered


async def _fetch() -> None:
    raise NotImplementedError


@pytest.fixture
def translator() -> Translator:
    pairs = [Direction(source="en", target="fr"), Direction(source="en", target="pt-BR")]
    routes = Routes(remote=[RemoteModel("model", pairs, True, _fetch, lambda: FetchProgress("remote", None))])
    return Translator(Offered(routes), LIMITS)


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("dragoman-en-fr", ("en", "fr")),
        ("dragoman-auto-fr", ("auto", "fr")),
        ("dragoman-fr", ("auto", "fr")),
        ("dragoman-en-pt-BR", ("en", "pt-BR")),
        ("dragoman-auto-pt-BR", ("auto", "pt-BR")),
        ("dragoman-pt-BR", ("auto", "pt-BR")),
        ("dragoman-en-GB-fr", ("en", "fr")),
    ],
)
def test_a_name_has_both_languages_or_the_target(translator: Translator, name: str, pair: tuple[str, str]) -> None:
    assert direction_of(translator, name) == pair


@pytest.mark.parametrize("name", ["dragoman-fr-zz", "dragoman-en-zz", "dragoman-zz", "dragoman-", "fr"])
def test_any_other_name_is_refused(translator: Translator, name: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^model: "):
        direction_of(translator, name)


@pytest.mark.parametrize(("started", "error"), [(True, UnknownModel), (False, NotReady)])
async def test_a_model_may_come_as_long_as_models_are_downloaded(
    translator: Translator, started: bool, error: type[Exception]
) -> None:
    library: Any = SimpleNamespace(started=started, why_not_ready="downloading", why_not_now=lambda _: None)
    nothing: Any = None
    service = ServiceContext(translator, library, nothing, nothing, nothing, nothing, nothing, nothing, nothing)
    with pytest.raises(error):
        await describe_model(service, nothing, "dragoman-en-de")


def test_the_progress_of_a_download_is_no_chunk() -> None:
    """OpenAI's clients would look for its choices."""
    request = ChatRequest.model_validate({"model": "dragoman-fr", "messages": [{"role": "user", "content": "Yes."}]})
    loading, token = ModelLoading("en-fr", "downloading", 7), TokenGenerated(0, 0, "Oui", -0.1)
    assert Chunks(request, "1").encode([loading], repeats_end=False) == b""
    assert b'"delta":{"content":"Oui"}' in Chunks(request, "1").encode([token], repeats_end=False)
