"""From texts to what an engine is given: sentences, ids, forced beginnings."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from service.engine.request import GivenTerm
from service.errors import InvalidRequest
from service.models.routing import Leg
from service.text.html import split_html
from service.text.plain import Splitter
from service.text.segment import STAND_IN, Segment, Term
from service.translation import TranslationOptions, Work, default_target_length

_LONGEST_TOKEN: Final = 64  # characters; tokenizers make none so long


class Preparation:
    """Prepares texts of one direction for its model."""

    def __init__(self, leg: Leg, options: TranslationOptions, *, restore_capitals: bool) -> None:
        self._model, self._direction = leg
        self._tokenizer = leg.model.tokenizer
        self._options = options
        self._prompt_ids = self._tokenizer.target_prefix(self._direction.target, self._direction.source)
        self._splitter = Splitter(self._fits, restore_capitals=restore_capitals)

    def work(self, index: int, text: str) -> Iterator[Work]:
        """That of a text, as it is asked for."""
        offset = 0
        for segment in self._segments(text):
            yield self._work_of(index, segment, offset + len(segment.before))
            offset += len(segment.text)

    def forced_ids(self, work: Sequence[Work]) -> list[int]:
        """What the translation has to begin with; raises `InvalidRequest`."""
        ids = self._tokenizer.encode_target(self._options.target_prefix)
        if not ids:
            return []
        sentences = [each.source_ids for each in work if each.source_ids]
        if len(sentences) != 1:
            raise InvalidRequest("target_prefix", f"needs a text of one sentence, there are {len(sentences)}")
        [source_ids] = sentences
        limit = self._options.max_new_tokens or default_target_length(len(source_ids), len(ids), self._model)
        if len(ids) >= limit:
            raise InvalidRequest("target_prefix", f"{len(ids)} tokens leave nothing of the {limit} that are possible")
        return ids

    def _segments(self, text: str) -> Iterator[Segment]:
        if self._options.is_html:
            return split_html(text, self._direction.source, self._splitter)
        return self._splitter.split(text, self._direction.source)

    def _work_of(self, index: int, segment: Segment, offset: int) -> Work:
        if not segment.translatable:
            return Work(index, self._model, segment, [])
        source, target = self._direction.codes()
        reading = segment.reading()
        ids = self._tokenizer.encode(reading.text, target, source)
        if not (segment.terms or segment.marks or self._options.alignment):
            return Work(index, self._model, segment, ids, prompt_ids=self._prompt_ids)
        spans = self._tokenizer.spans(reading.text, target, source)
        terms = [self._term(term, place, spans) for term, place in zip(segment.terms, reading.terms, strict=True)]
        originals = [span and reading.original(*span) for span in spans]
        return Work(index, self._model, segment, ids, originals, offset, terms, self._prompt_ids)

    def _term(self, term: Term, place: tuple[int, int], spans: Sequence[tuple[int, int] | None]) -> GivenTerm:
        """What the engine is told of a term: it reads and writes a stand-in for what is copied."""
        inside = [number for number, span in enumerate(spans) if span and span[0] < place[1] and span[1] > place[0]]
        words = STAND_IN if term.is_copy else term.translation
        # A tokenizer may drop characters: then the model cannot look at the term, or write it as it is.
        ids = self._tokenizer.encode_target(words) or self._tokenizer.encode_target(STAND_IN)
        return GivenTerm(min(inside, default=0), max(inside, default=-1) + 1, ids)

    def _fits(self, segment: Segment) -> bool:
        limit = self._model.max_sentence_tokens
        source, target = self._direction.codes()
        words = segment.reading().text
        return len(words) <= limit * _LONGEST_TOKEN and len(self._tokenizer.encode(words, target, source)) <= limit


def prepare(
    texts: Sequence[str], preparations: Sequence[Preparation], target_prefix: str
) -> tuple[Iterator[Work], list[int]]:
    """The work of all texts, each with its own preparation, and what their translation has to begin with.

    Raises `InvalidRequest`.
    """
    work: Iterator[Work] = chain.from_iterable(
        preparation.work(index, text) for index, (text, preparation) in enumerate(zip(texts, preparations, strict=True))
    )
    if not (target_prefix and preparations):
        return work, []
    # Only a text of one sentence can have one, so all of it may be looked at.
    all_work = list(work)
    return iter(all_work), preparations[0].forced_ids(all_work)
