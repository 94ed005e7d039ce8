"""Terms of a glossary in one segment: each takes the place of what the model writes without it.

The model translates freely. Where its attention says which words translate a term, the term takes their place, with the
form of the word before it (l' or le) that makes the sentence most probable. The rest is then written again behind the
term, but only words in other forms are accepted: what agrees with the term. Free decoding behind a term that the model
would not have written drops words.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from model.tokenizer import Detokenizer
from service.engine.generation_request import Beam, GenerationRequest, Resume, Sampling, Search
from service.engine.messages import Alternative, FinishReason, TokenReport
from service.supervisor.generation import Generation, Reader
from service.text.term_places import Place, Word, agree, dependent_word, find_place, find_written, words
from service.translation.preprocess import EncodedSegment

# Sentences of 88 in which the article had the term's gender, by share: 51 at 1, 63 at 0.8, 73 at 0.6, 76 at 0.5, 72 at
# 0.3, 65 at 0. At 0.6 a term that the model does not know keeps the article that it had.
_FORM_SHARE: Final = 0.6


class NoPlace(Exception):
    """No word of the translation is known to translate the terms with these numbers."""

    def __init__(self, numbers: set[int]) -> None:
        self.numbers = numbers


def with_placeholders(encoded: EncodedSegment, numbers: Collection[int]) -> EncodedSegment:
    """Return the segment with placeholders for the terms with these numbers."""
    assert encoded.encode_again is not None
    terms = [
        term._replace(as_placeholder=term.as_placeholder or number in numbers)
        for number, term in enumerate(encoded.segment.terms)
    ]
    return encoded.encode_again(encoded.segment._replace(terms=terms))._replace(forced_ids=encoded.forced_ids)


class _Target(NamedTuple):
    """The place of a term; with `is_written`, the model has written the term itself."""

    place: Place
    number: int
    is_written: bool


class _Beginning(NamedTuple):
    """The beginning of a translation with a term at its end: tokens that are known, then others, each with its term."""

    known: list[TokenReport]
    ids: list[int]
    terms: list[int | None]
    is_plural: bool
    """True if the word before the term is plural: les, des."""


class TermWriter:
    """Writes the terms of one segment into its free translation."""

    def __init__(
        self,
        encoded: EncodedSegment,
        request: GenerationRequest,
        submit: Callable[[GenerationRequest], Reader],
        deadline: float,
    ) -> None:
        """`request` translates the segment freely, and has the attention of its tokens inspected."""
        assert encoded.model is not None
        self._encoded = encoded
        self._tokenizer = encoded.model.tokenizer
        self._request = request
        self._submit = submit
        self._deadline = deadline
        terms = encoded.segment.terms
        self._copied = [number for number, term in enumerate(terms) if term.has_placeholder]

    async def write(self, reader: Reader, *, keeps_attention: bool) -> Reader:
        """Return a reader of the segment's translation with its terms; `reader` reads the free one.

        Alternatives in which a term has no place are left out. Raises `NoPlace` and what `reader` raises.
        """
        free = await self._read(reader)
        best = await self._with_terms(free)
        others = await asyncio.gather(
            *(self._with_terms(self._numbered(each.tokens)) for each in free[-1].alternatives), return_exceptions=True
        )
        for error in others:
            if isinstance(error, BaseException) and not isinstance(error, NoPlace):
                raise error
        reason: FinishReason = "stop" if best[-1].token_id == self._tokenizer.eos_id else "length"
        alternatives = [
            Alternative(each, sum(token.logprob for token in each)) for each in others if isinstance(each, list)
        ]
        best[-1] = replace(best[-1], finish_reason=reason, alternatives=alternatives)
        generation = Generation(self._request)
        for token in best:
            kept = token.inspection if keeps_attention else token.inspection._replace(attention=())
            generation.deliver(replace(token, inspection=kept))
        return generation.add_reader()

    async def _with_terms(self, tokens: list[TokenReport]) -> list[TokenReport]:
        """Return a translation with all terms, written from left to right. Raises `NoPlace`."""
        pending = set(self._encoded.glossary_terms)
        prefix, fixed = len(self._encoded.forced_ids), 0
        while pending:
            texts = self._texts(tokens)
            found = [word for word in words(texts) if word.start >= fixed]
            targets = [target for number in sorted(pending) if (target := self._target(number, found, tokens))]
            if not targets:
                raise NoPlace(pending)
            target = min(targets, key=lambda each: each.place.start)
            pending.remove(target.number)
            if target.is_written or target.place.start < prefix:
                fixed = target.place.end
            else:
                tokens, fixed = await self._replaced(tokens, texts, target)
        return tokens

    def _target(self, number: int, found: Sequence[Word], tokens: Sequence[TokenReport]) -> _Target | None:
        given, term = self._encoded.terms[number], self._encoded.segment.terms[number]
        shares = [sum(token.inspection.attention[given.start : given.end]) for token in tokens]
        if place := find_written(found, shares, term.translation):
            return _Target(place, number, is_written=True)
        place = find_place(found, shares, self._encoded.segment.languages[1])
        return None if place is None else _Target(place, number, is_written=False)

    async def _replaced(
        self, tokens: Sequence[TokenReport], texts: Sequence[str], target: _Target
    ) -> tuple[list[TokenReport], int]:
        """Return the translation with a term in its place, and the number of tokens up to the end of the term."""
        beginnings = self._beginnings(tokens, texts, target)
        best = beginnings[0] if len(beginnings) == 1 else await self._fitting(beginnings)
        end = len(best.known) + len(best.ids)
        unchanged = await self._followed_by(tokens[target.place.end :], best)
        limit = self._request.search.max_new_tokens
        again = unchanged
        if end < limit:  # all that is behind the term is written again
            again = await self._continued(unchanged[:end], [], limit, unchanged[end:-1])
        chosen = again if self._agree(unchanged[end:], again[end:]) else unchanged
        own = range(end - sum(term == target.number for term in best.terms), end)
        return [
            replace(token, logprob=0.0, term=target.number) if place in own else token
            for place, token in enumerate(chosen)
        ], end

    async def _fitting(self, beginnings: Sequence[_Beginning]) -> _Beginning:
        """Return the beginning whose form of the word before the term fits the term best.

        Its number is that of the most probable beginning. Within it, its own probability counts less than that of
        the term behind it: the model finds a form probable for a word of its own, whose gender may be another.
        """
        versions = await asyncio.gather(*(self._continued(each.known, each.ids) for each in beginnings))
        totals, fits = [], []
        for each, version in zip(beginnings, versions, strict=True):
            new = [token.logprob for token in version[len(each.known) : -1]]
            forms = each.terms.count(None)
            totals.append(sum(new))
            fits.append(_FORM_SHARE * sum(new[:forms]) + sum(new[forms:]))
        likely = beginnings[totals.index(max(totals))]
        possible = [i for i, each in enumerate(beginnings) if each.is_plural == likely.is_plural]
        return beginnings[max(possible, key=fits.__getitem__)]

    def _beginnings(self, tokens: Sequence[TokenReport], texts: Sequence[str], target: _Target) -> list[_Beginning]:
        """Return the beginnings with the term, one for each form of the word before it."""
        start, end, _ = target.place
        translation = self._encoded.segment.terms[target.number].translation
        before = "".join(texts[:start])
        dependent, forms = dependent_word(before, translation, self._encoded.segment.languages[1])
        first = next((i for i in range(start) if dependent and "".join(texts[i:start]).strip() == dependent), start)
        if first == start or first < len(self._encoded.forced_ids):
            first, forms = start, [""]
        is_spaced = "".join(texts[start:end]).startswith(" ")
        beginnings = []
        for form in forms:
            ids = self._tokenizer.encode_target(form.strip()) if form else []
            term = self._term_ids(form or ("" if is_spaced else before), translation)
            beginnings.append(
                _Beginning(
                    list(tokens[:first]),
                    [*ids, *term],
                    [*(None for _ in ids), *(target.number for _ in term)],
                    form.endswith(("s ", "x ")),
                )
            )
        return beginnings

    def _agree(self, old: Sequence[TokenReport], new: Sequence[TokenReport]) -> bool:
        """Return True if tokens written again are other forms of the old words, with the same copied elements."""
        texts, others = self._texts(old), self._texts(new)
        copied = [[token.term for token in each if token.term is not None] for each in (old, new)]
        return copied[0] == copied[1] and agree(*([word.text for word in words(each)] for each in (texts, others)))

    def _term_ids(self, before: str, translation: str) -> list[int]:
        """Return the ids of a translation behind a text, with or without a space between them."""
        alone = self._tokenizer.encode_term(translation)
        if not before or before.endswith(" "):
            return alone
        word = before.split(" ")[-1]
        prefix, both = self._tokenizer.encode_term(word), self._tokenizer.encode_term(word + translation)
        return both[len(prefix) :] if both[: len(prefix)] == prefix else alone

    async def _followed_by(self, rest: Sequence[TokenReport], beginning: _Beginning) -> list[TokenReport]:
        """Return a beginning with the rest of the free translation, as far as the limit allows."""
        room = self._request.search.max_new_tokens - len(beginning.known)
        ids = [*beginning.ids, *(token.token_id for token in rest)][:room]
        terms = [*beginning.terms, *(token.term for token in rest)][:room]
        # The last one, most often the end, is not forced but replaces what the engine chooses.
        tokens = await self._continued(beginning.known, ids[:-1])
        new = zip(tokens[len(beginning.known) :], ids, terms, strict=True)
        return [*beginning.known, *(replace(token, token_id=i, term=term) for token, i, term in new)]

    async def _continued(
        self,
        known: Sequence[TokenReport],
        forced: Sequence[int],
        limit: int | None = None,
        draft: Sequence[TokenReport] = (),
    ) -> list[TokenReport]:
        """Return known tokens and what follows, greedily: forced tokens and one more, or all up to `limit`."""
        sent = [token.token_id for token in known]
        numbers = {number: place for place, number in enumerate(self._copied)}
        terms = [None if token.term is None else numbers.get(token.term) for token in known] if numbers else []
        request = replace(
            self._request,
            search=Search(limit or len(sent) + len(forced) + 1, Sampling(), Beam()),
            constraints=replace(self._request.constraints, forced_ids=[*sent, *forced]),
            resume=Resume(sent, terms),
            draft=[token.token_id for token in draft],
        )
        return [*known, *await self._read(self._submit(request))]

    async def _read(self, reader: Reader) -> list[TokenReport]:
        """Return all tokens of a reader, and close it."""
        try:
            while await reader.read(self._deadline):
                pass
            return self._numbered(reader.tokens)
        finally:
            reader.close()

    def _numbered(self, tokens: Sequence[TokenReport]) -> list[TokenReport]:
        """Number terms as the segment does: the engine knows the copied ones alone."""
        return [replace(each, term=None if each.term is None else self._copied[each.term]) for each in tokens]

    def _texts(self, tokens: Sequence[TokenReport]) -> list[str]:
        detokenizer = Detokenizer(self._tokenizer)
        return [detokenizer.push(token.token_id) for token in tokens]
