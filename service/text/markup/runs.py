"""Runs to sentences: a run is text with inline tags among it, of HTML or of any other markup."""

from collections.abc import Iterator, Sequence

from service.text.markup.inline_tags import inner_range, to_marks
from service.text.markup.source_map import Fragment, PlacedTag, SourceMap, tags_outside, with_source
from service.text.segment import Encoding, Segment
from service.text.splitter import Splitter


def copied_segment(raw: str) -> Segment:
    return Segment(raw, "", "", translatable=False)


def split_run(
    run: Sequence[Fragment], language: str, splitter: Splitter, encoding: Encoding = "html"
) -> Iterator[Segment]:
    """Split a run of text and inline tags into sentences."""
    source_map = SourceMap(run)
    position = ended = 0
    trailing: list[PlacedTag] = []
    for found in splitter.sentences(source_map.text, language, source_map.copied_terms()):
        start = position + len(found.before)
        end = start + len(found.sentence)
        position += len(found.text)
        if not found.sentence:
            continue
        before, own = source_map.take_tags_before(start), source_map.take_tags_of_sentence(end)
        first, last = inner_range(own, start, end)
        inner = own[first:last]
        terms = [with_source(source_map, term, start, inner) for term in found.terms]
        yield found._replace(
            before=source_map.raw(ended, start, [*trailing, *before, *own[:first]]),
            after="",
            raw=source_map.raw(start, end, inner),
            terms=terms,
            marks=to_marks(tags_outside(found.terms, start, inner), start),
            encoding=encoding,
        )
        ended, trailing = end, own[last:]
    length = len(source_map.text)
    yield copied_segment(source_map.raw(ended, length, [*trailing, *source_map.take_tags_before(length + 1)]))
