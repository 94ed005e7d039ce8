"""The languages of a request: detection, codes, and refusals."""

import pytest

from service.errors import InvalidRequest
from service.text.language_detection import Detected
from service.translation.events import Finished, SegmentFinished, Started, TokenGenerated
from service.translation.options import TranslationOptions
from service.translation.translation import Translation
from service.translation.translator import FieldNames, Translator
from tests.service.translation.noted import NotedPool, Of


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
    asked_for = [request.prompt.source_ids for request in pool.requests]
    for text, language in zip(texts, ("en", "de"), strict=True):
        translator.start([text], language, "fr", TranslationOptions())
    assert asked_for == [request.prompt.source_ids for request in pool.requests[2:]]
    assert asked_for[0][:8] != asked_for[1][:8]


async def test_a_text_in_the_target_language_is_copied(translator: Translator, pool: NotedPool) -> None:
    """German goes through French; English has no target."""
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
    finished = await translation.finished()
    assert [each.text for each in finished.translations] == ["Wo ist der Bahnhof?", ""]
    assert not pool.requests
    with pytest.raises(InvalidRequest, match=r"^target_prefix: "):
        translator.start(["Wo ist der Bahnhof?"], "de", "de", TranslationOptions(target_prefix="Wo"))


@pytest.mark.parametrize("text", ["This is a cat in the house.", "12", ""])
async def test_a_text_in_a_source_only_language_is_copied(translator_of: Of, pool: NotedPool, text: str) -> None:
    translation = translator_of("en-fr").start([text], "auto", "en-GB", TranslationOptions())
    events = [event async for some in translation.events() for event in some]
    started, finished = events[0], events[-1]
    assert isinstance(started, Started)
    assert isinstance(finished, Finished)
    assert ([each.language for each in started.detected], started.target) == (["en"], "en")
    assert [each.text for each in finished.translations] == [text]
    assert not pool.requests


def test_translated_targets_come_before_copied_ones(translator_of: Of) -> None:
    """Argos calls the Portuguese of Brazil `pb`."""
    assert translator_of("pb-en", "en-pt").direction("auto", "pt-BR") == ("auto", "pt")


@pytest.mark.parametrize(
    ("directions", "text", "target", "language"),
    [
        (["en-fr", "en-de"], "Où est la gare ?", "de", "fr"),
        (["en-fr"], "Où est la gare ?", "en", "fr"),
        (["en-fr"], "Menu", "en", "fr"),
        (["en-fr"], "Onde fica a estação?", "fr", "pt"),
    ],
)
def test_a_text_that_cannot_be_translated_into_the_target_is_refused(
    translator_of: Of, directions: list[str], text: str, target: str, language: str
) -> None:
    message = f"^source: the text is in {language}, which cannot be translated into {target}$"
    with pytest.raises(InvalidRequest, match=message):
        translator_of(*directions).start(["Yes.", text], "auto", target, TranslationOptions())


async def test_a_text_in_no_known_language_may_be_copied(translator_of: Of, pool: NotedPool) -> None:
    options = TranslationOptions(copies_foreign=True)
    texts = ["Onde fica a estação? Perdi a minha chave.", "Où est la gare ?"]
    for target in ("fr", "de"):
        translation = translator_of("en-fr", "en-de").start(texts, "auto", target, options)
        finished = await translation.finished()
        assert [each.text for each in finished.translations] == texts
        assert [each.language for each in finished.detected] == ["pt", "fr"]
    assert not pool.requests


@pytest.mark.parametrize("text", ["Menu", "12"])
async def test_a_text_in_no_known_language_gets_a_likely_source(translator_of: Of, text: str) -> None:
    """A single word, more probably French than English, is not enough evidence for a copy."""
    started = await _started(translator_of("en-fr").start([text], "auto", "fr", TranslationOptions()))
    assert [each.language for each in started.detected] == ["en"]


async def test_other_scripts_of_the_target_language_are_copied(translator_of: Of, pool: NotedPool) -> None:
    translator = translator_of("zh-en", "en-zh-Hant")
    started = await _started(translator.start(["我喜欢猫，你呢？"], "auto", "zh-Hant", TranslationOptions()))
    assert ([each.language for each in started.detected], pool.requests) == (["zh-Hant"], [])
    started = await _started(translator.start(["我喜欢猫，你呢？"], "auto", "en", TranslationOptions()))
    assert [each.language for each in started.detected] == ["zh"]


def test_a_detected_language_may_be_a_target_only(translator_of: Of) -> None:
    translator = translator_of("en-de")
    assert [each.language for each in translator.detect("Wo ist der Bahnhof?")] == ["de"]
    assert translator.detect("12") == [Detected("en", 0)]
    assert translator.languages == {"de": {"de"}, "en": {"de", "en"}}


async def test_a_given_language_is_not_detected(translator: Translator) -> None:
    started = await _started(translator.start(["Wo ist der Bahnhof?"], "en", "fr", TranslationOptions()))
    assert not started.detected


@pytest.mark.parametrize(("source", "target", "field"), [("xx", "fr", "source"), ("auto", "xx", "target")])
async def test_an_impossible_direction_is_refused(translator: Translator, source: str, target: str, field: str) -> None:
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
async def test_languages_are_reported_by_the_models_codes(
    translator: Translator, source: str, target: str, meant: tuple[str, str]
) -> None:
    assert translator.direction(source, target) == meant
    started = await _started(translator.start(["Where is the station?"], source, target, TranslationOptions()))
    assert (started.source, started.target) == ("en", "fr")


def test_an_unknown_language_is_named_as_written_with_the_known_ones(translator: Translator) -> None:
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


def test_a_target_only_source_refuses_the_target(translator_of: Of) -> None:
    translator = translator_of("en-fr")
    assert translator.direction("fr", "fr-CA") == ("fr", "fr")
    with pytest.raises(InvalidRequest, match=r"^target: en is not supported; available: fr$"):
        translator.direction("FR", "en")
    with pytest.raises(InvalidRequest, match=r"^source: de is not supported; available: auto, en$"):
        translator.direction("de", "en")


async def test_no_texts_have_no_language(translator: Translator) -> None:
    started = await _started(translator.start([], "auto", "fr", TranslationOptions()))
    assert started == Started(started.id, "auto", "fr", list[Detected]())
