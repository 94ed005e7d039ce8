"""Lookups in the translation memory: a sentence that stands there needs no engine."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from service.registry.routing import Route
from service.stores.translation_memory import TranslationMemory
from service.text.segment import Segment
from service.translation.options import Inspect, TranslationOptions
from service.translation.preprocess import EncodedSegment, Preprocessor

_LONGEST_ENTRY: Final = 2_000
"""Characters of a text that is looked up as a whole, before it is split."""


def remembering(
    memory: TranslationMemory | None, route: Route, options: TranslationOptions
) -> Callable[..., Preprocessor]:
    """Return the constructor of a route's first preprocessor: a `Preprocessor` where a request has no memory.

    What is inspected or continued needs a model's own words.
    """
    if memory is None or not memory.has(options.caller) or options.target_prefix or options.inspect != Inspect():
        return Preprocessor
    return partial(_RememberingPreprocessor, memory, route)


class _RememberingPreprocessor(Preprocessor):
    """Looks up each sentence before a model reads it; a short text as a whole, too, as entries may have several."""

    def __init__(self, memory: TranslationMemory, route: Route, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        languages = route.first.direction.source, route.last.direction.target
        self._translation = partial(memory.translation, self._options.caller, *languages)
        self._matches = partial(memory.matches, self._options.caller, *languages)

    def encode(self, index: int, text: str) -> Iterator[EncodedSegment]:
        whole = self._whole(text)
        if whole is not None and (found := self._translation(whole)) is not None:
            whole = whole._replace(remembered=found)
            yield EncodedSegment(index, self._model, self._with_matches(whole), [], offset=len(whole.before))
            return
        for encoded in super().encode(index, text):
            segment = self._with_matches(encoded.segment)
            # The terms of a caller's glossary come before the memory.
            has_terms = any(not term.is_copy for term in segment.terms)
            found = self._translation(segment) if segment.translatable and not has_terms else None
            if found is None:
                yield encoded._replace(segment=segment)
            else:
                yield encoded._replace(segment=segment._replace(remembered=found), source_ids=[], then=None)

    def _with_matches(self, segment: Segment) -> Segment:
        is_searched = self._options.shows_matches and segment.translatable
        return segment._replace(matches=self._matches(segment)) if is_searched else segment

    def _whole(self, text: str) -> Segment | None:
        """Return a short text without markup as one segment."""
        is_markup = self._options.is_html or self._options.xml is not None
        if len(text) > _LONGEST_ENTRY or len(self._options.glossary) or (is_markup and ("<" in text or "&" in text)):
            return None
        if not (words := text.strip()):
            return None
        before, _, after = text.partition(words)
        return Segment(before, words, after, encoding="html" if is_markup else "plain")
