"""Preprocessing: from texts to segments with token ids, ready for an engine."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple

from service.engine.generation_request import GivenTerm
from service.errors import InvalidRequest
from service.registry.routing import Leg
from service.registry.served_model import CLOSING, ServedModel
from service.text.glossary import Finder
from service.text.html import split_attribute, split_html
from service.text.language_codes import foreign_letters
from service.text.light_markup import split_light_markup, split_sentences
from service.text.segment import STAND_IN, Segment, Term
from service.text.sentences import sentence_separator
from service.text.splitter import Splitter
from service.text.unwritable import Unwritable
from service.text.xml import XmlTags, split_xml
from service.translation.options import TranslationOptions, default_target_length

_LONGEST_TOKEN: Final = 64  # characters; no tokenizer has longer tokens
Encode = Callable[[int, str], Iterator["EncodedSegment"]]
"""Yields the segments of a text, whose number is the first argument, lazily."""


class PivotSentence(NamedTuple):
    """A sentence in the pivot language, and its copied terms; in HTML with its tags."""

    text: str
    terms: Sequence[Term]


class EncodedSegment(NamedTuple):
    """A segment with its token ids, its model, and the text it belongs to.

    `source_ids` are empty if the segment is copied. `spans` are the spans of the ids in the sentence
    (`Tokenizer.spans`), if they are needed.
    """

    text_index: int
    model: ServedModel | None
    """None if the whole text is copied without a model."""
    segment: Segment
    source_ids: list[int]
    spans: Sequence[tuple[int, int] | None] = ()
    offset: int = 0
    """The position of the sentence in the text."""
    terms: Sequence[GivenTerm] = ()
    """The terms of the segment, as the engine reads and writes them."""
    closing_ids: Sequence[int] = ()
    """Final punctuation; the terms are written before it at the latest."""
    prompt_ids: Sequence[int] = ()
    """Tokens that tell the decoder the languages."""
    forced_ids: Sequence[int] = ()
    """Tokens that the translation has to begin with."""
    then: Callable[["EncodedSegment", PivotSentence], list["EncodedSegment"]] | None = None
    """Encodes the first model's translation for the second model; None if there is no second model."""

    encode_again: Callable[[Segment], "EncodedSegment"] | None = None
    """Encodes the segment with other terms, if it has terms."""

    @property
    def copied_terms(self) -> list[GivenTerm]:
        """The terms that the engine copies."""
        pairs = zip(self.terms, self.segment.terms, strict=True)
        return [given for given, term in pairs if term.has_placeholder]

    @property
    def glossary_terms(self) -> list[int]:
        """The numbers of the terms that are put into the free translation (`translation.glossary_terms`)."""
        return [number for number, term in enumerate(self.segment.terms) if not term.has_placeholder]


class Preprocessor:
    """Splits and encodes texts of one direction for its model."""

    def __init__(
        self,
        leg: Leg,
        options: TranslationOptions,
        find_terms: Finder,
        *,
        second: "Preprocessor | None" = None,
    ) -> None:
        """`find_terms` finds the terms of a glossary in this model's source texts.

        `second` encodes this model's translations for the second model of a pivot route.
        """
        self._model, self._direction = leg
        self._tokenizer = leg.model.tokenizer
        self._options = options
        self._second = second
        self._languages = source, target = self._direction.codes()
        # A sentence is encoded when its length is checked, and once more soon afterwards.
        self._ids = lru_cache(maxsize=16)(partial(self._tokenizer.encode, target=target, source=source))
        self._prompt_ids = self._tokenizer.target_prefix(self._direction.target, self._direction.source)
        last = self if second is None else second
        separator = sentence_separator(self._direction.source, last._direction.target)
        # A tokenizer with case marks reads and writes capitals as well as anything else.
        restore_capitals = not self._tokenizer.marks_case
        foreign = foreign_letters(self._direction.source, self._direction.target)
        unwritable = Unwritable(foreign, self._tokenizer.unspelled)
        self._splitter = Splitter(self._fits, restore_capitals, find_terms, separator, options.splitting, unwritable)

    def encode(self, index: int, text: str) -> Iterator[EncodedSegment]:
        """Yield the encoded segments of a text, lazily."""
        offset = 0
        for segment in self._segments(text):
            yield self._encode_segment(index, segment, offset + len(segment.before))
            offset += len(segment.text)

    def with_target_prefix(self, segments: Iterator[EncodedSegment]) -> Iterator[EncodedSegment]:
        """Add the target prefix to a text's only sentence; raises `InvalidRequest`.

        Reads no further than the second sentence: a book is not split to be refused.
        """
        last = self if self._second is None else self._second
        ids = last._tokenizer.encode_target(self._options.target_prefix)
        if not ids:
            return segments
        read: list[EncodedSegment] = []
        number: int | None = None
        for each in segments:
            if each.source_ids:
                if number is not None:
                    raise InvalidRequest("target_prefix", "needs a text of one sentence, there are more")
                number = len(read)
            read.append(each)
        if number is None:
            raise InvalidRequest("target_prefix", "needs a text of one sentence, there is none")
        # The shortest possible source: a longer one allows more tokens.
        limit = self._options.max_new_tokens or default_target_length(1, len(ids), last._model)
        if len(ids) >= limit:
            raise InvalidRequest("target_prefix", f"{len(ids)} tokens leave nothing of the {limit} that are possible")
        only = read[number]
        forced = (
            only._replace(forced_ids=ids) if only.then is None else only._replace(then=partial(last.encode_pivot, ids))
        )
        return iter([*read[:number], forced, *read[number + 1 :]])

    def encode_pivot(
        self, forced_ids: Sequence[int], first: EncodedSegment, sentence: PivotSentence
    ) -> list[EncodedSegment]:
        """Encode the first model's translation of a segment; `forced_ids` begin the second translation."""
        segment = first.segment
        parts = list(self._parts(segment, sentence)) or [Segment("", "", "", translatable=False)]
        parts[0] = parts[0]._replace(
            before=segment.before + parts[0].before, separator=segment.separator, matches=segment.matches
        )
        parts[-1] = parts[-1]._replace(after=parts[-1].after + segment.after)
        capitals = [each._replace(capitals=each.capitals or segment.capitals) for each in parts]
        encoded = [self._encode_segment(first.text_index, each, 0) for each in capitals]
        begins = next((number for number, each in enumerate(encoded) if each.source_ids), None)
        if forced_ids and begins is not None:
            encoded[begins] = encoded[begins]._replace(forced_ids=forced_ids)
        return encoded

    def _parts(self, segment: Segment, sentence: PivotSentence) -> Iterator[Segment]:
        """Split the pivot sentence like a text, as far as the segment's encoding allows."""
        language = self._direction.source
        match segment.encoding:
            case "html":
                return split_html(sentence.text, language, self._splitter, self._options.ignored_elements)
            case "xml":
                assert self._options.xml is not None
                inline = XmlTags(self._options.xml.ignored, detects_outline=False)
                return split_xml(sentence.text, language, self._splitter, inline)
            case "attribute":
                return split_attribute(sentence.text, language, self._splitter)
            case "plain":
                sentences = split_sentences(sentence.text, language, self._splitter, sentence.terms)
                return self._splitter.merge_copied(sentences)

    def _segments(self, text: str) -> Iterator[Segment]:
        if self._options.is_html:
            return split_html(text, self._direction.source, self._splitter, self._options.ignored_elements)
        if self._options.xml is not None:
            return split_xml(text, self._direction.source, self._splitter, self._options.xml)
        return split_light_markup(text, self._direction.source, self._splitter)

    def _encode_segment(self, index: int, segment: Segment, offset: int) -> EncodedSegment:
        if not segment.translatable:
            return EncodedSegment(index, self._model, segment, [], offset=offset)
        source, target = self._languages
        segment = segment._replace(languages=self._languages)
        given = (self._tokenizer.encode_term(term.translation) for term in segment.terms if not term.has_placeholder)
        if sum(map(len, given)) > self._model.max_sentence_tokens:
            # Longer than a translation: they are written, but the model does not read and write them.
            segment = segment._replace(terms=[term._replace(as_placeholder=not term.is_copy) for term in segment.terms])
        model_input = segment.model_input()
        ids = self._ids(model_input.text)
        then = None if self._second is None else partial(self._second.encode_pivot, ())
        encoded = EncodedSegment(
            index, self._model, segment, ids, offset=offset, prompt_ids=self._prompt_ids, then=then
        )
        if not (segment.terms or segment.marks or self._options.inspect.alignment):
            return encoded
        spans = self._tokenizer.spans(model_input.text, target, source)
        terms = [self._term(term, place, spans) for term, place in zip(segment.terms, model_input.terms, strict=True)]
        return encoded._replace(
            spans=[span and model_input.sentence_span(*span) for span in spans],
            terms=terms,
            closing_ids=self._model.closing_ids if terms and _ends_with_its_only_mark(model_input.text) else (),
            encode_again=partial(self._encode_segment, index, offset=offset),
        )

    def _term(self, term: Term, place: tuple[int, int], spans: Sequence[tuple[int, int] | None]) -> GivenTerm:
        """Convert a term for the engine; copied terms are read and written as placeholders."""
        inside = [number for number, span in enumerate(spans) if span and span[0] < place[1] and span[1] > place[0]]
        words = STAND_IN if term.has_placeholder else term.translation
        # A tokenizer may drop characters: then the model cannot read the term, or write its translation.
        ids = self._tokenizer.encode_term(words) or self._tokenizer.encode_term(STAND_IN)
        return GivenTerm(min(inside, default=0), max(inside, default=-1) + 1, ids)

    def _fits(self, segment: Segment) -> bool:
        limit = self._model.max_sentence_tokens
        words = segment._replace(languages=self._languages).model_input().text
        return len(words) <= limit * _LONGEST_TOKEN and len(self._ids(words)) <= limit


def copied(index: int, text: str) -> Iterator[EncodedSegment]:
    """Yield a text that is already in the target language as one segment."""
    if text:
        yield EncodedSegment(index, None, Segment("", text, "", translatable=False), [])


def _ends_with_its_only_mark(text: str) -> bool:
    """Return True if the final mark is the only one; then its translation most probably ends with a mark, too."""
    return text[-1:] in CLOSING and not any(mark in text[:-1] for mark in CLOSING)
