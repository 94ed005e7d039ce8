"""The segments in flight, and what is left of them when a translation ends."""

import gc
import weakref

from service.translation.options import TranslationOptions
from service.translation.translator import Translator


async def test_a_closed_translation_leaves_no_garbage(translator: Translator) -> None:
    """A reference cycle would keep its tokens in memory until the next garbage collection."""
    gc.collect()
    gc.disable()
    try:
        translation = translator.start(["I am a cat. Yes."], "en", "fr", TranslationOptions())
        alive = weakref.ref(translation)
        translation.close()
        del translation
        assert alive() is None
    finally:
        gc.enable()
