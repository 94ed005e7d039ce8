"""What is prepared, sent and counted of a text of many sentences, and when."""

import asyncio

import pytest

from model.tokenizer import Tokenizer
from service.engine.messages import GenerationRequest, TokenReport
from service.errors import DeadlineExceeded, InvalidRequest
from service.supervisor.generation import Generation
from service.translation import fairness
from service.translation.events import Finished, Started, TokenGenerated
from service.translation.options import TranslationOptions
from service.translation.translator import Translator
from tests.service.translation.noted import LIMITS, NotedPool


async def test_a_long_text_is_prepared_as_it_is_translated(translator: Translator, pool: NotedPool) -> None:
    translator.start(["The cat sat. " * 700], "en", "fr", TranslationOptions())
    assert len(pool.requests) == LIMITS.max_segments_in_flight


async def test_a_long_text_with_a_prefix_is_refused_by_its_second_sentence(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, encoded = Tokenizer.encode, []

    def counted(tokenizer: Tokenizer, text: str, target: str, source: str) -> list[int]:
        encoded.append(text)
        return encode(tokenizer, text, target, source)

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

    monkeypatch.setattr("service.translation.stream.time.thread_time", clock)
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
    monkeypatch.setattr(fairness, "_LONGEST_SECONDS", 600.0)
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
