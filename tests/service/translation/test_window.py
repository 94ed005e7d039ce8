"""The segments in flight and their end; long texts wait for the first tokens of others, but not for ever."""

import asyncio
import gc
import weakref

import pytest

from service.translation import window
from service.translation.options import TranslationOptions
from service.translation.translator import Translator
from service.translation.window import FirstTokenPriority


async def test_a_closed_translation_leaves_no_garbage(translator: Translator) -> None:
    """A reference cycle would keep its tokens in memory until the next garbage collection."""
    gc.collect()
    gc.disable()
    try:
        translation = translator.start(["I see a cat. Yes."], "en", "fr", TranslationOptions())
        alive = weakref.ref(translation)
        translation.close()
        del translation
        assert alive() is None
    finally:
        gc.enable()


async def test_it_yields_once_if_no_request_waits() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    for expected in (1, 2, 3):
        await FirstTokenPriority().wait_for_others()
        assert turns == expected
    counting.cancel()


async def test_it_waits_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "_LONGEST_WAIT_SECONDS", 0.0)
    priority = FirstTokenPriority()
    priority.expect("one")
    await priority.wait_for_others()
