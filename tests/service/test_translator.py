"""Languages and limits, with an engine that only takes note of what it is given."""

import asyncio
from typing import cast

import pytest

from model.config import ModelConfig
from model.manifest import CheckpointConfig, Direction
from model.tokenizer import Prompt, Tokenizer
from service.engine.generation import Generation
from service.engine.pool import EnginePool
from service.engine.request import GenerationRequest, TokenReport
from service.errors import DeadlineExceeded, InvalidRequest, TooLong
from service.events import Started
from service.models.routing import Routes
from service.models.served import ServedModel
from service.text.detection import Detected
from service.text.glossary import Glossary
from service.translation import Limits, Translation, TranslationOptions
from service.translator import FieldNames, Translator

LIMITS = Limits(
    max_characters=10_000,
    max_texts=10,
    max_segments_in_flight=4,
    max_beam_size=4,
    restore_capitals=True,
    timeout_seconds=10,
)


class NotedPool:
    running = True

    def __init__(self) -> None:
        self.requests: list[GenerationRequest] = []

    def admit(self) -> None:
        pass

    def submit(self, request: GenerationRequest) -> Generation:
        self.requests.append(request)
        return Generation(len(self.requests), request, lambda generation: None)


@pytest.fixture
def pool() -> NotedPool:
    return NotedPool()


@pytest.fixture
def translator(config: ModelConfig, tokenizer: Tokenizer, pool: NotedPool) -> Translator:
    directions = [
        Direction(source="en", target="fr"),
        Direction(source="de", target="fr"),
        Direction(source="fr", target="en"),
    ]
    asked = Tokenizer(tokenizer.files, Prompt(text_prefix="{source}: "))
    checkpoint = CheckpointConfig(directions=tuple(directions), model=config.model_copy(update={"max_positions": 96}))
    routes = Routes([ServedModel("model", checkpoint, asked, cast(EnginePool, pool))])
    return Translator(lambda: routes, LIMITS)


async def _started(translation: Translation) -> Started:
    async for [event] in translation.events():
        assert isinstance(event, Started)
        return event
    raise AssertionError


async def test_each_text_is_translated_from_its_own_language(translator: Translator, pool: NotedPool) -> None:
    texts = ["Where is the station?", "Wo ist der Bahnhof?"]
    started = await _started(translator.start(texts, "auto", "fr", TranslationOptions()))
    assert [each.language for each in started.detected] == ["en", "de"]
    assert (started.source, started.target) == ("en", "fr")
    asked_for = [request.source_ids for request in pool.requests]
    for text, language in zip(texts, ("en", "de"), strict=True):
        translator.start([text], language, "fr", TranslationOptions())
    assert asked_for == [request.source_ids for request in pool.requests[2:]]
    assert asked_for[0][:8] != asked_for[1][:8]


async def test_only_what_can_be_translated_is_detected(translator: Translator) -> None:
    """Into English German can be, by way of French; English cannot."""
    texts = ["Wo ist der Bahnhof?", "Where is the station?"]
    started = await _started(translator.start(texts, "auto", "en", TranslationOptions()))
    assert [each.language for each in started.detected] == ["de", "de"]
    assert started.pivots == ["fr", "fr"]
    assert [each.language for each in translator.detect("Wo ist der Bahnhof?")] == ["de", "en", "fr"]


async def test_a_language_that_is_given_is_not_detected(translator: Translator) -> None:
    started = await _started(translator.start(["Wo ist der Bahnhof?"], "en", "fr", TranslationOptions()))
    assert not started.detected


@pytest.mark.parametrize(("source", "target", "field"), [("xx", "fr", "source"), ("auto", "xx", "target")])
async def test_what_cannot_be_translated_is_refused(
    translator: Translator, source: str, target: str, field: str
) -> None:
    with pytest.raises(InvalidRequest, match=f"^{field}: xx is not supported"):
        translator.start(["a"], source, target, TranslationOptions())


async def test_no_texts_are_in_no_language(translator: Translator) -> None:
    started = await _started(translator.start([], "auto", "fr", TranslationOptions()))
    assert started == Started(started.id, "auto", "fr", list[Detected]())


async def test_a_long_text_is_prepared_as_it_is_translated(translator: Translator, pool: NotedPool) -> None:
    translator.start(["The cat sat. " * 700], "en", "fr", TranslationOptions())
    assert len(pool.requests) == LIMITS.max_segments_in_flight


async def test_an_engine_that_never_lets_its_reader_wait_does_not_outrun_the_deadline(
    translator: Translator, pool: NotedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_once(request: GenerationRequest) -> Generation:
        generation = Generation(0, request, lambda generation: None)
        generation.deliver(TokenReport(0, 5, -0.5, "stop"))
        return generation

    monkeypatch.setattr(pool, "submit", at_once)
    text = "The cat sat. " * (LIMITS.max_segments_in_flight + 1)
    translation = translator.start([text], "en", "fr", TranslationOptions(timeout_seconds=0.3))
    events = translation.events()
    assert isinstance((await anext(events))[0], Started)
    await asyncio.sleep(0.31)
    with pytest.raises(DeadlineExceeded):
        [_ async for _ in events]


@pytest.mark.parametrize(
    ("wished", "described", "expected"), [(None, None, 48), (None, 20, 20), (30, 20, 30), (None, 90, 48), (90, 20, 48)]
)
def test_how_long_a_sentence_may_be(
    config: ModelConfig, tokenizer: Tokenizer, wished: int | None, described: int | None, expected: int
) -> None:
    """As the deployment wishes, or else as the checkpoint says, but never more than half of the positions."""
    directions = (Direction(source="en", target="fr"),)
    model = config.model_copy(update={"max_positions": 96})
    checkpoint = CheckpointConfig(directions=directions, max_sentence_tokens=described, model=model)
    served = ServedModel("model", checkpoint, tokenizer, cast(EnginePool, NotedPool()), wished)
    assert served.max_sentence_tokens == expected


async def test_terms_of_a_glossary_count_in_the_length_of_a_sentence(translator: Translator, pool: NotedPool) -> None:
    """What they are translated by has to have a place."""
    text = "The cat and the cat and the cat and the cat."
    translator.start([text], "en", "fr", TranslationOptions())
    assert len(pool.requests) == 1
    long = Glossary({"cat": "un chat très long et très gros"})
    translator.start([text], "en", "fr", TranslationOptions(glossary=long))
    terms = [len(request.terms) for request in pool.requests[1:]]
    assert sum(terms) == 4
    assert len(terms) > 1


async def test_errors_name_the_fields_of_the_caller(translator: Translator) -> None:
    names = FieldNames(text="text", glossary="glossary_id")
    for texts in (["a" * 10_001], ["a"] * 11):
        with pytest.raises(TooLong, match=r"^text: "):
            translator.start(texts, "en", "fr", TranslationOptions(), names)
    with pytest.raises(InvalidRequest, match=r"^glossary_id: is not available from de into en"):
        translator.start(["a"], "de", "en", TranslationOptions(glossary=Glossary({"a": "b"})), names)
