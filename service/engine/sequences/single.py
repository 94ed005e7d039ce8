"""A single hypothesis, in the one slot that it holds."""

from collections.abc import Sequence
from itertools import takewhile

from model.beam_search import Choice, Extension
from service.engine.forced_terms import replace_early_end, term_progress
from service.engine.generation_request import GenerationRequest
from service.engine.sequences.rows import PlainState, Row, StepResult, is_plain, prefix_rows, prompt_rows


class SingleSequence:
    """One hypothesis: greedy or sampled."""

    def __init__(
        self, request: GenerationRequest, slots: Sequence[int], eos_id: int, *, is_recurrent: bool = False
    ) -> None:
        """A recurrent decoder keeps no state from before a wrong draft: it reads all tokens again, in one step."""
        self._request = request
        self._draft = [] if request.constraints.terms else request.draft
        self._is_recurrent = is_recurrent
        self._reads_again = False
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
        if self._is_first_of_several:
            prefix = prefix_rows(request, slot, len(request.resume.sent_ids))
            return prompt_rows(request, slot) + prefix + self._draft_rows()
        ids = request.prompt.decoder_ids + self._ids
        if self._reads_again:
            return [Row(request, slot, slot, ids[:i], num_extensions=int(i == len(ids))) for i in range(len(ids) + 1)]
        rest, term, pending = term_progress(request.constraints.terms, self._terms)
        room = request.search.max_new_tokens - len(self._ids)
        following = [
            Row(request, slot, slot, ids + list(rest[:i]), forced=token, term=term)
            for i, token in enumerate(rest[:room])
        ] or [Row(request, slot, slot, ids, pending=pending)]
        return following if self._ids else prompt_rows(request, slot) + following

    @property
    def _is_first_of_several(self) -> bool:
        """True before the step that reads the forced prefix and the draft."""
        return not self._ids and bool(self._request.constraints.forced_ids or self._draft)

    def _draft_rows(self) -> list[Row]:
        """Return a row for each token that the draft proposes, and one for the token after it."""
        if not self._draft:
            return []
        before = self._request.prompt.decoder_ids + self._request.constraints.forced_ids
        room = self._request.search.max_new_tokens - len(self._request.constraints.forced_ids)
        proposed = self._draft[: room - 1]
        return [Row(self._request, self._slot, self._slot, before + proposed[:i]) for i in range(len(proposed) + 1)]

    def _kept(self, choices: Sequence[Choice]) -> list[Choice]:
        """Return the choices of draft rows up to the first one that the draft did not propose."""
        right = takewhile(
            lambda pair: pair[0].token == pair[1] != self._eos_id, zip(choices, self._draft, strict=False)
        )
        count = min(sum(1 for _ in right) + 1, len(choices))
        self._reads_again = self._is_recurrent and count < len(choices)
        return list(choices[:count])

    def advance(self, extensions: list[Extension]) -> StepResult:
        if self._is_first_of_several:
            forced = self._request.constraints.forced_ids
            new = len(forced) - len(self._request.resume.sent_ids)
            choices = [extension.choice for extension in extensions]
            kept = self._kept(choices[new:])
            choices = choices[:new] + kept
            self._ids = forced + [choice.token for choice in kept]
        else:
            self._reads_again = False
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
        if not self._is_plain or self._reads_again:
            return None
        if count == 0 and (request.prompt.decoder_ids or self._is_first_of_several):
            return None
        rest, _, pending = term_progress(request.constraints.terms, self._terms)
        if rest or pending:
            return None
        token = self._ids[-1] if self._ids else None
        return PlainState(token, len(request.prompt.decoder_ids) + count, request.search.max_new_tokens - count)
