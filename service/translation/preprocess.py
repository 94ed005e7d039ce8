"""From texts to what an engine is given: sentences, ids, forced beginnings."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from service.engine.messages import GivenTerm
from service.errors import InvalidRequest
from service.registry.routing import Leg
from service.registry.served_model import CLOSING, ServedModel
from service.text.glossary import Finder
from service.text.html.splitter import split_attribute, split_html
from service.text.segment import PLACEHOLDER, Segment, Term
from service.text.sentences import sentence_separator
from service.text.splitter import Splitter
from service.translation.options import TranslationOptions, default_target_length

_LONGEST_TOKEN: Final = 64  # characters; tokenizers make none so long


class Between(NamedTuple):
    """A sentence in the language between two models, and what in it is copied; in HTML with its tags."""

    text: str
    terms: Sequence[Term]


class Work(NamedTuple):
    """A segment, the text it belongs to, its model, and its ids ([] where it is copied, not translated).

    `spans` are what its ids stand for in its sentence (`Tokenizer.spans`), if that is wanted.
    """

    text_index: int
    model: ServedModel | None
    """None where the whole text is copied, for which none is needed."""
    segment: Segment
    source_ids: list[int]
    spans: Sequence[tuple[int, int] | None] = ()
    offset: int = 0
    """Of the sentence, in the text."""
    terms: Sequence[GivenTerm] = ()
    """The terms of the segment, for the engine."""
    closing_ids: Sequence[int] = ()
    """Marks before which those are written at the latest."""
    prompt_ids: Sequence[int] = ()
    """They tell the decoder the languages."""
    forced_ids: Sequence[int] = ()
    """They begin the translation."""
    then: Callable[["Work", Between], list["Work"]] | None = None
    """A second model's work on what the first one makes of it, if that is not the end."""


class Preparation:
    """Prepares texts of one direction for its model."""

    def __init__(
        self,
        leg: Leg,
        options: TranslationOptions,
        glossary: Finder,
        *,
        restore_capitals: bool,
        second: "Preparation | None" = None,
    ) -> None:
        """`glossary` finds terms in what this model reads.

        `second` prepares what this model's translations are for another model, if that is not the end.
        """
        self._model, self._direction = leg
        self._tokenizer = leg.model.tokenizer
        self._options = options
        self._second = second
        self._prompt_ids = self._tokenizer.target_prefix(self._direction.target, self._direction.source)
        last = self if second is None else second
        separator = sentence_separator(self._direction.source, last._direction.target)
        self._splitter = Splitter(self._fits, restore_capitals, glossary, separator)

    def work(self, index: int, text: str) -> Iterator[Work]:
        """That of a text, as it is asked for."""
        offset = 0
        for segment in self._segments(text):
            yield self._work_of(index, segment, offset + len(segment.before))
            offset += len(segment.text)

    def begun(self, work: Iterator[Work]) -> Iterator[Work]:
        """A text's work, with what the translation has to begin with; raises `InvalidRequest`.

        Looks no further than the second sentence: a book is not taken apart to be refused.
        """
        last = self if self._second is None else self._second
        ids = last._tokenizer.encode_target(self._options.target_prefix)
        if not ids:
            return work
        all_work: list[Work] = []
        number: int | None = None
        for each in work:
            if each.source_ids:
                if number is not None:
                    raise InvalidRequest("target_prefix", "needs a text of one sentence, there are more")
                number = len(all_work)
            all_work.append(each)
        if number is None:
            raise InvalidRequest("target_prefix", "needs a text of one sentence, there is none")
        # Whatever the source: it only adds to what is possible.
        limit = self._options.max_new_tokens or default_target_length(1, len(ids), last._model)
        if len(ids) >= limit:
            raise InvalidRequest("target_prefix", f"{len(ids)} tokens leave nothing of the {limit} that are possible")
        only = all_work[number]
        begun = only._replace(forced_ids=ids) if only.then is None else only._replace(then=partial(last.again, ids))
        return iter([*all_work[:number], begun, *all_work[number + 1 :]])

    def again(self, forced_ids: Sequence[int], first: Work, between: Between) -> list[Work]:
        """Of what the model before this one has made of a segment; `forced_ids` begin its translation."""
        segment = first.segment
        parts = list(self._parts(segment, between)) or [Segment("", "", "", translatable=False)]
        parts[0] = parts[0]._replace(before=segment.before + parts[0].before, separator=segment.separator)
        parts[-1] = parts[-1]._replace(after=parts[-1].after + segment.after)
        capitals = [each._replace(capitals=each.capitals or segment.capitals) for each in parts]
        work = [self._work_of(first.text_index, each, 0) for each in capitals]
        begins = next((number for number, each in enumerate(work) if each.source_ids), None)
        if forced_ids and begins is not None:
            work[begins] = work[begins]._replace(forced_ids=forced_ids)
        return work

    def _parts(self, segment: Segment, between: Between) -> Iterator[Segment]:
        """Like a text of its own, as far as the place where it stands allows."""
        language = self._direction.source
        match segment.encoding:
            case "html":
                return split_html(between.text, language, self._splitter)
            case "attribute":
                return split_attribute(between.text, language, self._splitter)
            case "plain":
                return self._splitter.merge_copied(self._splitter.sentences(between.text, language, between.terms))

    def _segments(self, text: str) -> Iterator[Segment]:
        if self._options.is_html:
            return split_html(text, self._direction.source, self._splitter)
        return self._splitter.split(text, self._direction.source)

    def _work_of(self, index: int, segment: Segment, offset: int) -> Work:
        if not segment.translatable:
            return Work(index, self._model, segment, [])
        source, target = self._direction.codes()
        read = segment.model_input()
        ids = self._tokenizer.encode(read.text, target, source)
        then = None if self._second is None else partial(self._second.again, ())
        if not (segment.terms or segment.marks or self._options.inspect.alignment):
            return Work(index, self._model, segment, ids, prompt_ids=self._prompt_ids, then=then)
        spans = self._tokenizer.spans(read.text, target, source)
        terms = [self._term(term, place, spans) for term, place in zip(segment.terms, read.terms, strict=True)]
        originals = [span and read.sentence_span(*span) for span in spans]
        closing_ids = self._model.closing_ids if terms and _closes_with_its_only_mark(read.text) else ()
        return Work(
            index, self._model, segment, ids, originals, offset, terms, closing_ids, self._prompt_ids, then=then
        )

    def _term(self, term: Term, place: tuple[int, int], spans: Sequence[tuple[int, int] | None]) -> GivenTerm:
        """What the engine is told of a term: it reads and writes a stand-in for what is copied."""
        inside = [number for number, span in enumerate(spans) if span and span[0] < place[1] and span[1] > place[0]]
        words = PLACEHOLDER if term.has_placeholder else term.translation
        # A tokenizer may drop characters: then the model cannot look at the term, or write it as it is.
        ids = self._tokenizer.encode_target(words) or self._tokenizer.encode_target(PLACEHOLDER)
        return GivenTerm(min(inside, default=0), max(inside, default=-1) + 1, ids)

    def _fits(self, segment: Segment) -> bool:
        limit = self._model.max_sentence_tokens
        source, target = self._direction.codes()
        words = segment.model_input().text
        if len(words) > limit * _LONGEST_TOKEN or len(self._tokenizer.encode(words, target, source)) > limit:
            return False
        # What is to be written has to have a place, too.
        given = [term.translation for term in segment.terms if not term.has_placeholder]
        return sum(len(self._tokenizer.encode_target(each)) for each in given) <= limit


class Copying:
    """In the place of a preparation, where a text is in the target language already."""

    def work(self, index: int, text: str) -> Iterator[Work]:
        if text:
            yield Work(index, None, Segment(text, "", "", translatable=False), [])

    def begun(self, work: Iterator[Work]) -> Iterator[Work]:
        raise InvalidRequest("target_prefix", "the text is in the target language already, and copied")


def _closes_with_its_only_mark(text: str) -> bool:
    """Then its translation most probably does, too: no abbreviations, no numbers with a point."""
    return text[-1:] in CLOSING and not any(mark in text[:-1] for mark in CLOSING)


def prepare(texts: Sequence[str], preparations: Sequence[Preparation | Copying], target_prefix: str) -> Iterator[Work]:
    """The work of all texts, each with its own preparation. Raises `InvalidRequest`."""
    work: Iterator[Work] = chain.from_iterable(
        preparation.work(index, text) for index, (text, preparation) in enumerate(zip(texts, preparations, strict=True))
    )
    # Only a text of one sentence can have a prefix.
    return preparations[0].begun(work) if target_prefix and preparations else work
