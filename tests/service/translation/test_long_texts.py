"""Texts of many sentences: they are prepared, sent and counted step by step."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from model.tokenizer import Tokenizer
from service.engine.generation_request import GenerationRequest
from service.engine.messages import TokenReport
from service.errors import DeadlineExceeded, EngineFailed, InvalidRequest, QueueFull
from service.supervisor.generation import Generation, Reader
from service.translation import window
from service.translation.events import Finished, Started, TokenGenerated
from service.translation.options import TranslationOptions
from service.translation.translator import Translator
from tests.service.translation.noted import LIMITS, NotedPool


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


async def test_slow_preparation_is_spread_over_several_steps(
    translator: Translator, pool: NotedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop stays free for others; in the end the whole text is translated."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1.0
        return now

    monkeypatch.setattr("service.translation.window.time.thread_time", clock)
    monkeypatch.setattr(pool, "submit", _answers_at_once(pool))
    translation = translator.start(["The cat sat. " * 9], "en", "fr", TranslationOptions())
    assert len(pool.requests) == 1
    events = [event async for some in translation.events() for event in some]
    assert isinstance(events[-1], Finished)
    assert len(pool.requests) == 9


def _answers_at_once(pool: NotedPool) -> Callable[[GenerationRequest, str | None], Reader]:
    def submit(request: GenerationRequest, scope: str | None) -> Reader:
        pool.requests.append(request)
        generation = Generation(request)
        generation.deliver(TokenReport(0, 5, -0.5, "stop"))
        return generation.add_reader()

    return submit


@pytest.mark.parametrize(("sentences", "in_thread"), [(300, False), (400, True)])
async def test_only_long_texts_are_prepared_outside_of_the_event_loop(
    sentences: int, in_thread: bool, translator: Translator, pool: NotedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, threads = Tokenizer.encode, set()

    def noted(tokenizer: Tokenizer, text: str, target: str, source: str) -> list[int]:
        threads.add(threading.current_thread() is threading.main_thread())
        return encode(tokenizer, text, target, source)

    monkeypatch.setattr(Tokenizer, "encode", noted)
    monkeypatch.setattr(pool, "submit", _answers_at_once(pool))
    translation = translator.start(["The cat sat. " * sentences], "en", "fr", TranslationOptions())
    finished = await translation.finished()
    assert finished.usage.segments == len(pool.requests) == sentences
    assert threads == {not in_thread}


async def test_a_long_text_that_is_closed_while_it_is_prepared_is_not_submitted(
    translator: Translator, pool: NotedPool
) -> None:
    translation = translator.start(["The cat sat. " * 400], "en", "fr", TranslationOptions())
    events = translation.events()
    await anext(events)
    translation.close()
    assert isinstance((await anext(events))[-1], Finished)
    assert not pool.requests
    assert not translator.running


async def test_a_long_text_whose_reader_leaves_during_its_preparation_is_not_submitted(
    translator: Translator, pool: NotedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_encode = threading.Event()
    monkeypatch.setattr(Tokenizer, "encode", _held_until(may_encode))
    translation = translator.start(["The cat sat. " * 400], "en", "fr", TranslationOptions())
    events = translation.events()
    await anext(events)
    reading = asyncio.create_task(anext(events))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    translation.close()
    may_encode.set()
    await asyncio.to_thread(translator._executor.shutdown)
    await asyncio.sleep(0.05)  # a chance for what has been prepared
    assert not pool.requests


async def test_the_preparation_of_a_long_text_keeps_the_deadline(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_encode = threading.Event()
    monkeypatch.setattr(Tokenizer, "encode", _held_until(may_encode))
    options = TranslationOptions(timeout_seconds=0.05)
    translation = translator.start(["The cat sat. " * 400], "en", "fr", options)
    with pytest.raises(DeadlineExceeded):
        await translation.finished()
    may_encode.set()


def _held_until(may_encode: threading.Event) -> Callable[[Tokenizer, str, str, str], list[int]]:
    def encode(tokenizer: Tokenizer, text: str, target: str, source: str) -> list[int]:
        assert may_encode.wait(60)
        return [5, 2]

    return encode


async def test_a_long_text_ends_with_the_error_of_its_preparation(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> list[int]:
        raise ZeroDivisionError("by chance")

    monkeypatch.setattr(Tokenizer, "encode", broken)
    translation = translator.start(["The cat sat. " * 400], "en", "fr", TranslationOptions())
    with pytest.raises(ZeroDivisionError):
        await translation.finished()


async def test_long_texts_in_preparation_are_limited(
    translator: Translator, pool: NotedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.translation.translator._MOST_IN_PREPARATION", 1)
    monkeypatch.setattr(pool, "submit", _answers_at_once(pool))
    text = "The cat sat. " * 400
    first = translator.start([text], "en", "fr", TranslationOptions())
    with pytest.raises(QueueFull):
        translator.start([text], "en", "fr", TranslationOptions())
    translator.start(["The cat sat."], "en", "fr", TranslationOptions()).close()
    await first.finished()
    translator.start([text], "en", "fr", TranslationOptions()).close()


async def test_sent_characters_are_counted_by_sentences(translator: Translator, pool: NotedPool) -> None:
    """A sentence counts from its first token on, including the white space around it."""
    first, second = "The cat sat. ", "The dog ran."
    translation = translator.start([first + second], "en", "fr", TranslationOptions())
    events = translation.events()
    await anext(events)
    assert translation.characters_sent == 0
    for generation, sent in zip(pool.generations, (first, first + second), strict=True):
        for finish_reason in (None, "stop"):
            generation.deliver(TokenReport(0, 5, -0.5, finish_reason))
            assert isinstance((await anext(events))[0], TokenGenerated)
            assert translation.characters_sent == len(sent)


async def test_an_engine_that_never_lets_its_reader_wait_does_not_outrun_the_deadline(
    translator: Translator, pool: NotedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "submit", _answers_at_once(pool))
    text = "The cat sat. " * (LIMITS.max_segments_in_flight + 1)
    translation = translator.start([text], "en", "fr", TranslationOptions(timeout_seconds=60.0))
    events = translation.events()
    assert isinstance((await anext(events))[0], Started)
    loop = asyncio.get_running_loop()
    later = loop.time() + 61.0
    monkeypatch.setattr(loop, "time", lambda: later)
    with pytest.raises(DeadlineExceeded):
        [_ async for _ in events]


async def test_events_that_have_arrived_come_together(translator: Translator, pool: NotedPool) -> None:
    events = translator.start(["The cat sat. " * 3], "en", "fr", TranslationOptions()).events()
    assert len(await anext(events)) == 1
    pool.end(0, 1)
    assert [each.segment for each in await anext(events) if isinstance(each, TokenGenerated)] == [0, 1]
    pool.end(2)
    assert [each.segment for each in await anext(events) if isinstance(each, TokenGenerated)] == [2]


async def test_events_that_arrived_before_an_error_come_first(translator: Translator, pool: NotedPool) -> None:
    events = translator.start(["The cat sat. " * 3], "en", "fr", TranslationOptions()).events()
    await anext(events)
    pool.end(0)
    pool.generations[1].fail(EngineFailed("dead"))
    assert [each.segment for each in await anext(events) if isinstance(each, TokenGenerated)] == [0]
    with pytest.raises(EngineFailed):
        await anext(events)


async def test_late_sentences_of_a_long_text_are_patient(translator: Translator, pool: NotedPool) -> None:
    """Only so many are in flight; the next one is prepared when one has ended."""
    translation = translator.start(["The cat sat. " * 6], "en", "fr", TranslationOptions())
    pool.end(0)
    events = translation.events()
    while len(pool.requests) == LIMITS.max_segments_in_flight:
        await anext(events)
    translator.start(["The cat sat."], "en", "fr", TranslationOptions())
    assert [request.yields_to_new for request in pool.requests] == [False, False, False, False, True, False]


@pytest.mark.parametrize(("sentences", "waits"), [(6, True), (3, False)])
async def test_a_long_text_waits_for_the_first_tokens_of_others(
    sentences: int, waits: bool, translator: Translator, pool: NotedPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window, "_LONGEST_WAIT_SECONDS", 600.0)
    events = translator.start(["The cat sat. " * sentences], "en", "fr", TranslationOptions()).events()
    pool.end(0)
    await anext(events)
    await anext(events)
    pool.end(1)
    other = translator.start(["The cat sat."], "en", "fr", TranslationOptions())
    following = asyncio.ensure_future(anext(events))
    for _ in range(20):
        await asyncio.sleep(0)
    assert following.done() != waits
    pool.end(-1)
    others = other.events()
    await anext(others)
    await anext(others)
    await following
