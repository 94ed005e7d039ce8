"""A single hypothesis, in the one slot that it holds."""

from collections.abc import Sequence

from model.beam_search import Extension
from service.engine.forced_terms import replace_early_end, term_progress
from service.engine.generation_request import GenerationRequest
from service.engine.sequences.rows import PlainState, Row, StepResult, is_plain, prefix_rows, prompt_rows


class SingleSequence:
    """One hypothesis: greedy or sampled."""

    def __init__(self, request: GenerationRequest, slots: Sequence[int], eos_id: int) -> None:
        self._request = request
        [self._slot] = slots
        self._eos_id = eos_id
        self._is_plain = is_plain(request)
        self._ids: list[int] = []  # of the translation
        # The term of each of `_ids`; unused where the request has no terms.
        self._terms: list[int | None] = list(request.resume.sent_terms)

    def copies(self) -> list[tuple[int, int, int]]:
        return []

    def rows(self) -> list[Row]:
        request, slot = self._request, self._slot
        if not self._ids and request.constraints.forced_ids:
            return prompt_rows(request, slot) + prefix_rows(request, slot, len(request.resume.sent_ids))
        ids = request.prompt.decoder_ids + self._ids
        rest, term, pending = term_progress(request.constraints.terms, self._terms)
        room = request.search.max_new_tokens - len(self._ids)
        following = [
            Row(request, slot, slot, ids + list(rest[:i]), forced=token, term=term)
            for i, token in enumerate(rest[:room])
        ] or [Row(request, slot, slot, ids, pending=pending)]
        return following if self._ids else prompt_rows(request, slot) + following

    def advance(self, extensions: list[Extension]) -> StepResult:
        if not self._ids and self._request.constraints.forced_ids:
            choices = [extension.choice for extension in extensions]
            self._ids = list(self._request.constraints.forced_ids)
        else:
            terms = self._request.constraints.terms
            pending = term_progress(terms, self._terms).pending
            ends = (self._eos_id, *self._request.constraints.closing_ids)
            choices = [replace_early_end(extension, terms, pending, ends).choice for extension in extensions]
            self._ids += [choice.token for choice in choices]
            if terms:
                self._terms += [choice.term for choice in choices]
        if self._ids[-1] == self._eos_id:
            return StepResult(choices, "stop")
        return StepResult(choices, "length" if len(self._ids) >= self._request.search.max_new_tokens else None)

    def plain_state(self) -> PlainState | None:
        request, count = self._request, len(self._ids)
        if not self._is_plain or (count == 0 and (request.prompt.decoder_ids or request.constraints.forced_ids)):
            return None
        rest, _, pending = term_progress(request.constraints.terms, self._terms)
        if rest or pending:
            return None
        token = self._ids[-1] if self._ids else None
        return PlainState(token, len(request.prompt.decoder_ids) + count, request.search.max_new_tokens - count)
