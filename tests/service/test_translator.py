"""Languages and limits, with an engine that only takes note of what it is given."""

import asyncio
from typing import Protocol, cast

import pytest

from model.config import ModelConfig
from model.manifest import CheckpointConfig, Direction
from model.tokenizer import Prompt, Tokenizer
from service import courtesy
from service.engine.generation import Generation
from service.engine.pool import EnginePool
from service.engine.request import GenerationRequest, TokenReport
from service.errors import DeadlineExceeded, InvalidRequest, TooLong
from service.events import Finished, SegmentFinished, Started, TokenGenerated
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
        self.generations: list[Generation] = []

    def admit(self) -> None:
        pass

    def submit(self, request: GenerationRequest) -> Generation:
        self.requests.append(request)
        self.generations.append(Generation(len(self.requests), request, lambda generation: None))
        return self.generations[-1]

    def end(self, *numbers: int) -> None:
        """Requests, with their first token."""
        for number in numbers:
            self.generations[number].deliver(TokenReport(number, 2, 0.0, "stop"))


@pytest.fixture
def pool() -> NotedPool:
    return NotedPool()


class Of(Protocol):
    """A translator of some directions, `en-fr`."""

    def __call__(self, *directions: str) -> Translator: ...


@pytest.fixture
def translator_of(config: ModelConfig, tokenizer: Tokenizer, pool: NotedPool) -> Of:
    def made(*directions: str) -> Translator:
        pairs = tuple(Direction(source=each.split("-", 1)[0], target=each.split("-", 1)[1]) for each in directions)
        asked = Tokenizer(tokenizer.files, Prompt(text_prefix="{source}: "))
        checkpoint = CheckpointConfig(directions=pairs, model=config.model_copy(update={"max_positions": 96}))
        routes = Routes([ServedModel("model", checkpoint, asked, cast(EnginePool, pool))])
        return Translator(lambda: routes, LIMITS)

    return made


@pytest.fixture
def translator(translator_of: Of) -> Translator:
    return translator_of("en-fr", "de-fr", "fr-en")


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


async def test_what_is_in_the_target_language_is_copied(translator: Translator, pool: NotedPool) -> None:
    """German goes by way of French; English has nowhere to go."""
    english = " Where is the station?\n\nI have lost my key. "
    translation = translator.start([english, "Wo ist der Bahnhof?"], "auto", "en", TranslationOptions())
    events = translation.events()
    [started] = await anext(events)
    assert isinstance(started, Started)
    assert [each.language for each in started.detected] == ["en", "de"]
    assert started.pivots == [None, "fr"]
    assert len(pool.requests) == 1
    token, finished = await anext(events)
    assert isinstance(token, TokenGenerated)
    assert isinstance(finished, SegmentFinished)
    assert (token.text, finished.finish_reason) == (english, "copied")
    assert translation.progress().generated_tokens == 0


async def test_a_language_may_be_its_own_target(translator: Translator, pool: NotedPool) -> None:
    translation = translator.start(["Wo ist der Bahnhof?", ""], "DE", "de-AT", TranslationOptions())
    events = [event async for some in translation.events() for event in some]
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert [each.text for each in finished.translations] == ["Wo ist der Bahnhof?", ""]
    assert not pool.requests
    with pytest.raises(InvalidRequest, match=r"^target_prefix: "):
        translator.start(["Wo ist der Bahnhof?"], "de", "de", TranslationOptions(target_prefix="Wo"))


def test_a_text_that_cannot_be_translated_into_the_target_is_refused(translator_of: Of) -> None:
    with pytest.raises(InvalidRequest, match=r"^source: the text is in fr, which cannot be translated into de$"):
        translator_of("en-fr", "en-de").start(["Où est la gare ?"], "auto", "de", TranslationOptions())


@pytest.mark.parametrize("text", ["This is a cat in the house.", "12", ""])
async def test_what_is_in_a_language_that_is_a_source_only_is_copied(
    translator_of: Of, pool: NotedPool, text: str
) -> None:
    translation = translator_of("en-fr").start([text], "auto", "en-GB", TranslationOptions())
    events = [event async for some in translation.events() for event in some]
    started, finished = events[0], events[-1]
    assert isinstance(started, Started)
    assert isinstance(finished, Finished)
    assert ([each.language for each in started.detected], started.target) == (["en"], "en")
    assert [each.text for each in finished.translations] == [text]
    assert not pool.requests


@pytest.mark.parametrize("text", ["Où est la gare ?", "Menu"])
def test_nothing_can_be_translated_into_a_language_that_is_a_source_only(translator_of: Of, text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^source: the text is in fr, which cannot be translated into en$"):
        translator_of("en-fr").start([text], "auto", "en", TranslationOptions())


def test_what_can_be_translated_into_goes_before_what_can_only_be_copied(translator_of: Of) -> None:
    """Argos calls the Portuguese of Brazil `pb`."""
    assert translator_of("pb-en", "en-pt").direction("auto", "pt-BR") == ("auto", "pt")


@pytest.mark.parametrize("text", ["Onde fica a estação? Perdi a minha chave.", "Menu", "12"])
async def test_what_is_surely_in_no_known_language_is_taken_for_a_likely_source(translator_of: Of, text: str) -> None:
    """One word, likelier French than English, says too little to be left as it is."""
    started = await _started(translator_of("en-fr").start([text], "auto", "fr", TranslationOptions()))
    assert [each.language for each in started.detected] == ["en"]


async def test_scripts_of_the_target_language_are_left_as_they_are(translator_of: Of, pool: NotedPool) -> None:
    translator = translator_of("zh-en", "en-zh-Hant")
    started = await _started(translator.start(["我喜欢猫，你呢？"], "auto", "zh-Hant", TranslationOptions()))
    assert ([each.language for each in started.detected], pool.requests) == (["zh-Hant"], [])
    started = await _started(translator.start(["我喜欢猫，你呢？"], "auto", "en", TranslationOptions()))
    assert [each.language for each in started.detected] == ["zh"]


def test_what_is_detected_may_be_a_target_only(translator_of: Of) -> None:
    translator = translator_of("en-de")
    assert [each.language for each in translator.detect("Wo ist der Bahnhof?")] == ["de"]
    assert translator.detect("12") == [Detected("en", 0)]
    assert translator.languages == {"de": {"de"}, "en": {"de", "en"}}


async def test_a_language_that_is_given_is_not_detected(translator: Translator) -> None:
    started = await _started(translator.start(["Wo ist der Bahnhof?"], "en", "fr", TranslationOptions()))
    assert not started.detected


@pytest.mark.parametrize(("source", "target", "field"), [("xx", "fr", "source"), ("auto", "xx", "target")])
async def test_what_cannot_be_translated_is_refused(
    translator: Translator, source: str, target: str, field: str
) -> None:
    with pytest.raises(InvalidRequest, match=f"^{field}: xx is not supported"):
        translator.start(["a"], source, target, TranslationOptions())


@pytest.mark.parametrize(
    ("source", "target", "meant"),
    [
        ("EN", "Fr", ("en", "fr")),
        ("en-GB", "fr_FR", ("en", "fr")),
        ("AUTO", "FR-ca", ("auto", "fr")),
        ("auto", "fr", ("auto", "fr")),
    ],
)
async def test_languages_are_told_by_the_models_codes(
    translator: Translator, source: str, target: str, meant: tuple[str, str]
) -> None:
    assert translator.direction(source, target) == meant
    started = await _started(translator.start(["Where is the station?"], source, target, TranslationOptions()))
    assert (started.source, started.target) == ("en", "fr")


def test_an_unknown_language_is_named_as_it_was_written_with_those_that_there_are(translator: Translator) -> None:
    with pytest.raises(InvalidRequest, match=r"^source: EL is not supported; available: auto, de, en, fr$"):
        translator.direction("EL", "fr")
    with pytest.raises(InvalidRequest, match=r"^target: de-AT is not supported; available: en$"):
        translator.direction("FR", "de-AT")
    names = FieldNames(source="source_lang", target="target_lang", automatic=(), spelled=str.upper)
    with pytest.raises(InvalidRequest, match=r"^source_lang: xx is not supported; available: DE, EN, FR$"):
        translator.direction("xx", "fr", names)
    with pytest.raises(InvalidRequest, match=r"^source_lang: Auto is not supported; available: DE, EN, FR$"):
        translator.direction("Auto", "fr", names)
    with pytest.raises(InvalidRequest, match=r"^target_lang: xx is not supported; available: DE, EN, FR$"):
        translator.direction(None, "xx", names)


def test_from_a_language_that_is_a_target_only_it_is_the_target_that_is_refused(translator_of: Of) -> None:
    translator = translator_of("en-fr")
    assert translator.direction("fr", "fr-CA") == ("fr", "fr")
    with pytest.raises(InvalidRequest, match=r"^target: en is not supported; available: fr$"):
        translator.direction("FR", "en")
    with pytest.raises(InvalidRequest, match=r"^source: de is not supported; available: auto, en$"):
        translator.direction("de", "en")


async def test_no_texts_are_in_no_language(translator: Translator) -> None:
    started = await _started(translator.start([], "auto", "fr", TranslationOptions()))
    assert started == Started(started.id, "auto", "fr", list[Detected]())


async def test_a_long_text_is_prepared_as_it_is_translated(translator: Translator, pool: NotedPool) -> None:
    translator.start(["The cat sat. " * 700], "en", "fr", TranslationOptions())
    assert len(pool.requests) == LIMITS.max_segments_in_flight


async def test_a_long_text_with_a_prefix_is_refused_by_its_second_sentence(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, encoded = Tokenizer.encode, []

    def counted(tokenizer: Tokenizer, text: str, *languages: str) -> list[int]:
        encoded.append(text)
        return encode(tokenizer, text, *languages)

    monkeypatch.setattr(Tokenizer, "encode", counted)
    with pytest.raises(InvalidRequest, match=r"target_prefix: needs a text of one sentence, there are more"):
        translator.start(["I am.\n" * 1000], "en", "fr", TranslationOptions(target_prefix="Je"))
    assert len(encoded) < 10


async def test_what_takes_long_to_prepare_is_not_prepared_at_once(
    translator: Translator, pool: NotedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others want the event loop, too; in the end all is translated."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1.0
        return now

    def at_once(request: GenerationRequest) -> Generation:
        pool.requests.append(request)
        generation = Generation(0, request, lambda generation: None)
        generation.deliver(TokenReport(0, 5, -0.5, "stop"))
        return generation

    monkeypatch.setattr("service.translation.time.thread_time", clock)
    monkeypatch.setattr(pool, "submit", at_once)
    translation = translator.start(["The cat sat. " * 9], "en", "fr", TranslationOptions())
    assert len(pool.requests) == 1
    events = [event async for some in translation.events() for event in some]
    assert isinstance(events[-1], Finished)
    assert len(pool.requests) == 9


async def test_what_was_sent_of_a_text_is_counted_by_sentences(
    translator: Translator, pool: NotedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first token on, with the white space around."""
    first, second = "The cat sat. ", "The dog ran."
    generations: list[Generation] = []

    def submitted(request: GenerationRequest) -> Generation:
        generations.append(Generation(0, request, lambda generation: None))
        return generations[-1]

    monkeypatch.setattr(pool, "submit", submitted)
    translation = translator.start([first + second], "en", "fr", TranslationOptions())
    events = translation.events()
    await anext(events)
    assert translation.characters_sent == 0
    for generation, sent in zip(generations, (first, first + second), strict=True):
        for finish_reason in (None, "stop"):
            generation.deliver(TokenReport(0, 5, -0.5, finish_reason))
            assert isinstance((await anext(events))[-1], TokenGenerated)
            assert translation.characters_sent == len(sent)
        await anext(events)  # its end


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
    names = FieldNames(text="text")
    for texts in (["a" * 10_001], ["a"] * 11):
        with pytest.raises(TooLong, match=r"^text: "):
            translator.start(texts, "en", "fr", TranslationOptions(), names)


async def test_what_comes_late_in_a_long_text_is_patient(translator: Translator, pool: NotedPool) -> None:
    translation = translator.start(["The cat sat. " * 6], "en", "fr", TranslationOptions())
    pool.end(0, 1)
    events = translation.events()
    while len(pool.requests) == LIMITS.max_segments_in_flight:
        await anext(events)
    translator.start(["The cat sat."], "en", "fr", TranslationOptions())
    assert [request.patient for request in pool.requests] == [False, False, False, False, True, False]


@pytest.mark.parametrize(("sentences", "gives_way"), [(6, True), (3, False)])
async def test_a_long_text_lets_others_have_their_first_token(
    sentences: int, gives_way: bool, translator: Translator, pool: NotedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courtesy, "_LONGEST_SECONDS", 600.0)
    events = translator.start(["The cat sat. " * sentences], "en", "fr", TranslationOptions()).events()
    pool.end(0, 1)
    await anext(events)
    await anext(events)
    other = translator.start(["The cat sat."], "en", "fr", TranslationOptions())
    following = asyncio.ensure_future(anext(events))
    for _ in range(20):
        await asyncio.sleep(0)
    assert following.done() != gives_way
    pool.end(-1)
    others = other.events()
    await anext(others)
    await anext(others)
    await following
