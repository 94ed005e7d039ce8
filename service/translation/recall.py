"""Lookups in the translation memory: a sentence that stands there needs no engine."""

from collections.abc import Iterator
from typing import Final

from service.registry.routing import Route
from service.stores.translation_memory import TranslationMemory
from service.text.segment import Segment
from service.translation.options import Inspect, TranslationOptions
from service.translation.preprocess import Encode, EncodedSegment

_LONGEST_ENTRY: Final = 2_000
"""Characters of a text that is looked up as a whole, before it is split."""


def remembering(encode: Encode, memory: TranslationMemory, route: Route, options: TranslationOptions) -> Encode:
    """Return `encode` with a lookup of each sentence, and of a short text as a whole: entries may have several.

    It is `encode` itself for what is inspected or continued, which needs a model's own words.
    """
    if options.target_prefix or options.inspect != Inspect():
        return encode
    asked = options.caller, route.first.direction.source, route.last.direction.target

    def with_matches(segment: Segment) -> Segment:
        is_searched = options.shows_matches and segment.translatable
        return segment._replace(matches=memory.matches(*asked, segment)) if is_searched else segment

    def remembered(index: int, text: str) -> Iterator[EncodedSegment]:
        whole = _whole(text, options)
        if whole is not None and (found := memory.translation(*asked, whole)) is not None:
            segment = with_matches(whole._replace(remembered=found))
            yield EncodedSegment(index, route.first.model, segment, [], offset=len(whole.before))
            return
        for encoded in encode(index, text):
            segment = with_matches(encoded.segment)
            # The terms of a caller's glossary come before the memory.
            has_terms = any(not term.is_copy for term in segment.terms)
            found = memory.translation(*asked, segment) if segment.translatable and not has_terms else None
            if found is None:
                yield encoded._replace(segment=segment)
            else:
                yield encoded._replace(segment=segment._replace(remembered=found), source_ids=[], then=None)

    return remembered


def _whole(text: str, options: TranslationOptions) -> Segment | None:
    """Return a short text without markup as one segment."""
    is_markup = options.is_html or options.xml is not None
    if len(text) > _LONGEST_ENTRY or len(options.glossary) or (is_markup and ("<" in text or "&" in text)):
        return None
    if not (words := text.strip()):
        return None
    before, _, after = text.partition(words)
    return Segment(before, words, after, encoding="html" if is_markup else "plain")
