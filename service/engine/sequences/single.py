"""A single hypothesis, in the one slot that it holds."""

from collections.abc import Sequence

from model.beam_search import Extension
from service.engine.forced_terms import unless_end, what_is_open
from service.engine.messages import GenerationRequest
from service.engine.sequences.rows import Row, is_plain, prefix_rows, prompt_rows
from service.engine.sequences.sequence import Written


class SingleWriter:
    """One hypothesis: greedy or sampled."""

    def __init__(self, request: GenerationRequest, slots: Sequence[int], eos_id: int) -> None:
        self._request = request
        [self._slot] = slots
        self._eos_id = eos_id
        self._is_greedy = is_plain(request) and request.sampling.temperature == 0
        self._ids: list[int] = []  # of the translation
        self._terms: list[int | None] = list(request.told_terms)  # that those belong to; unused where there are none

    def copies(self) -> list[tuple[int, int, int]]:
        return []

    def rows(self) -> list[Row]:
        request, slot = self._request, self._slot
        if not self._ids and request.forced_ids:
            return prompt_rows(request, slot) + prefix_rows(request, slot, len(request.told_ids))
        ids = request.prompt_ids + self._ids
        rest, term, pending = what_is_open(request.terms, self._terms)
        room = request.max_new_tokens - len(self._ids)
        following = [
            Row(request, slot, slot, ids + list(rest[:i]), forced=token, term=term)
            for i, token in enumerate(rest[:room])
        ] or [Row(request, slot, slot, ids, pending=pending, is_greedy=self._is_greedy)]
        return following if self._ids else prompt_rows(request, slot) + following

    def take(self, extensions: list[Extension]) -> Written:
        if not self._ids and self._request.forced_ids:
            choices = [extension.choice for extension in extensions]
            self._ids = list(self._request.forced_ids)
        else:
            pending = what_is_open(self._request.terms, self._terms).pending
            ends = (self._eos_id, *self._request.closing_ids)
            choices = [unless_end(extension, self._request.terms, pending, ends).choice for extension in extensions]
            self._ids += [choice.token for choice in choices]
            if self._request.terms:
                self._terms += [choice.term for choice in choices]
        if self._ids[-1] == self._eos_id:
            return Written(choices, "stop")
        return Written(choices, "length" if len(self._ids) >= self._request.max_new_tokens else None)
