"""Hypotheses for the first sentence of a live source, behind what is committed of its translation."""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, NamedTuple

from service.engine.generation_request import Constraints, GenerationRequest, Prompt, Resume, Search
from service.engine.messages import TokenReport
from service.errors import InvalidRequest
from service.live.policies import Hypothesis, Token
from service.registry.routing import Route
from service.text.segment import Term
from service.translation.options import Beam, Inspect, TranslationOptions, default_target_length
from service.translation.postprocess import StreamingPostprocessor
from service.translation.preprocess import EncodedSegment, Preprocessor
from service.translation.translator import Translator

_UNFINISHED_TOKENS: Final = 8
"""A hypothesis of an unfinished sentence has this many tokens more than twice its source, at most."""


@dataclass
class Committed:
    """What is committed of the translation of a sentence: its tokens, each with its term, and their text."""

    ids: list[int] = field(default_factory=list)
    terms: list[Term | None] = field(default_factory=list)
    text: str = ""
    source_end: int = 0
    """The position in the sentence up to which the text is a translation of it."""


class Sentence(NamedTuple):
    """The first sentence of a text, and whether another one follows it."""

    text: str
    encoded: EncodedSegment
    is_followed: bool


class Decoder(ABC):
    """Translates the sentences of one session, which are split and encoded by the first model of the route."""

    def __init__(self, translator: Translator, route: Route, options: TranslationOptions) -> None:
        self._translator = translator
        self._route = route
        self._options = options
        self._preprocessor = Preprocessor(route.first, replace(options, beam=Beam()), self._find_terms)

    def _find_terms(self, text: str, beginnings: Sequence[int]) -> Iterator[Term]:
        # Words are committed before the sentence is whole: a term cannot take the place of other words afterwards.
        terms = self._options.glossary.find(text, beginnings) if self._route.second is None else ()
        return (term._replace(as_placeholder=True) for term in terms)

    def sentence(self, text: str) -> Sentence | None:
        """Return the first sentence of a text; None if there is none."""
        found = list(islice(self._preprocessor.encode(0, text), 2))
        return Sentence(found[0].segment.text, found[0], len(found) > 1) if found else None

    @abstractmethod
    async def hypothesis(
        self, sentence: Sentence, committed: Committed, draft: Sequence[Token], *, is_finished: bool
    ) -> Hypothesis:
        """Return what is behind the committed text; of a finished sentence, with all that ends it.

        Raises `ServiceError`. To be cancelled when another text has overtaken it.
        """

    async def revision(self, sentence: Sentence) -> str:
        """Return the best translation of a whole sentence. Raises `ServiceError`."""
        return await self._translated(sentence.text, replace(self._options, inspect=Inspect()))

    async def _translated(self, text: str, options: TranslationOptions) -> str:
        source, target = self._route.first.direction.source, self._route.last.direction.target
        translation = self._translator.start([text], source, target, options)
        try:
            return (await translation.finished()).translations[0].text
        finally:
            translation.close()


class DirectDecoder(Decoder):
    """Uses the engine's own means: committed tokens are forced, the draft is verified, attention is reported."""

    async def hypothesis(
        self, sentence: Sentence, committed: Committed, draft: Sequence[Token], *, is_finished: bool
    ) -> Hypothesis:
        encoded = sentence.encoded
        if not encoded.source_ids:
            copied = Token(-1, encoded.segment.copied_text[len(committed.text) :])
            return Hypothesis([copied] if is_finished else [])
        model = self._route.first.model
        request = self._request(encoded, committed, draft, is_finished=is_finished)
        if request.search.max_new_tokens <= len(committed.ids):
            return Hypothesis()
        model.pool.admit()
        reader = model.pool.submit(request)
        deadline = asyncio.get_running_loop().time() + self._translator.limits.timeout_seconds
        try:
            while await reader.read(deadline):
                pass
            places = [span and _start(encoded, span[0]) for span in encoded.spans]
            tokens = self._tokens(encoded, committed, reader.tokens, is_finished=is_finished)
            return Hypothesis(tokens, places)
        finally:
            reader.close()

    def _request(
        self, encoded: EncodedSegment, committed: Committed, draft: Sequence[Token], *, is_finished: bool
    ) -> GenerationRequest:
        model, forced = self._route.first.model, committed.ids
        length = default_target_length(len(encoded.source_ids), len(forced), model)
        if not is_finished:
            length = min(length, len(forced) + 2 * len(encoded.source_ids) + _UNFINISHED_TOKENS)
        terms = self._term_numbers(encoded, committed) if encoded.terms else []
        return GenerationRequest(
            Prompt(encoded.source_ids, list(encoded.prompt_ids)),
            Search(length),
            Constraints(forced_ids=forced, terms=list(encoded.terms), closing_ids=list(encoded.closing_ids)),
            Resume(forced, terms),
            self._options.inspect,
            draft=[token.token_id for token in draft],
        )

    @staticmethod
    def _term_numbers(encoded: EncodedSegment, committed: Committed) -> list[int | None]:
        """Return the numbers that the terms of committed tokens have now."""
        numbers = {(term.start, term.translation): number for number, term in enumerate(encoded.segment.terms)}
        return [None if term is None else numbers.get((term.start, term.translation)) for term in committed.terms]

    def _tokens(
        self, encoded: EncodedSegment, committed: Committed, reports: Sequence[TokenReport], *, is_finished: bool
    ) -> list[Token]:
        eos_id = reports[-1].token_id if reports and reports[-1].finish_reason == "stop" else None
        text = StreamingPostprocessor(encoded._replace(forced_ids=committed.ids))
        numbers = self._term_numbers(encoded, committed) if encoded.terms else [None] * len(committed.ids)
        for token_id, term in zip(committed.ids, numbers, strict=True):
            text.push(TokenReport(0, token_id, 0.0, term=term), is_last=False)
        tokens: list[Token] = []
        for report in reports:
            is_last = report is reports[-1]
            if is_last and eos_id is not None and not is_finished:
                break
            written = text.push(report, is_last=is_last and is_finished)
            tokens.append(_token(encoded, report, written, holds_text=text.holds_text))
        return tokens


def _token(encoded: EncodedSegment, report: TokenReport, text: str, *, holds_text: bool) -> Token:
    if report.term is not None:
        start = _start(encoded, encoded.segment.terms[report.term].start)
        return Token(report.token_id, text, start, term=report.term, holds_text=holds_text)
    inspection = report.inspection
    span = None if inspection.alignment is None else encoded.spans[inspection.alignment[0]]
    place = None if span is None else _start(encoded, span[0])
    return Token(report.token_id, text, place, inspection.attention, holds_text=holds_text)


def _start(encoded: EncodedSegment, place: int) -> int:
    """Return a position of the sentence in the text of its segment."""
    return len(encoded.segment.before) + encoded.segment.source_span(place, place)[0]


class PivotDecoder(Decoder):
    """Translates through two models, each time from the beginning; the committed text is the target prefix."""

    async def hypothesis(
        self, sentence: Sentence, committed: Committed, draft: Sequence[Token], *, is_finished: bool
    ) -> Hypothesis:
        if not sentence.encoded.source_ids and not is_finished:
            return Hypothesis()
        options = replace(self._options, inspect=Inspect(), beam=Beam(), target_prefix=committed.text.strip())
        try:
            whole = await self._translated(sentence.text, options)
        except InvalidRequest:  # the prefix is too long, or none can be given
            whole = await self._translated(sentence.text, replace(options, target_prefix=""))
        words = _words(whole[len(committed.text) :])
        if not whole.startswith(committed.text):
            # The models write the prefix otherwise. What is committed stays, and at the end the rest is added.
            words = _words(whole)[len(_words(committed.text)) :] if is_finished else []
        return Hypothesis([Token(hash(word), word) for word in words])


def _words(text: str) -> list[str]:
    """Split a text into words, each with the white space before it; the rest is the last one's."""
    return re.findall(r"^[^ ]+| [^ ]*", text)
