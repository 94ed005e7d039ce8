"""Beam search over the slots of one request: each live hypothesis is a row with a slot of its own.

All attend to the source in the first slot. The first child of a hypothesis inherits its slot, so that nothing is
copied; only further children get a copy of its K/V, in a slot whose hypothesis has died.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final

from model.beam_search import BeamSearch, Choice, Extension, Path
from service.engine.forced_terms import TermProgress, replace_early_end, term_progress
from service.engine.generation_request import GenerationRequest
from service.engine.messages import FinishReason, LiveHypothesis
from service.engine.sequences.rows import PlainState, Row, SearchDiffers, StepResult, is_plain, prefix_rows, prompt_rows

_by_total: Final = attrgetter("total")


class BeamSequence:
    """A beam search whose tokens are reported as soon as all hypotheses that can still win share them."""

    def __init__(self, request: GenerationRequest, slots: Sequence[int], eos_id: int) -> None:
        self._request = request
        self._slots = list(slots)
        self._eos_id = eos_id
        self._prompt = [Choice(token, 0.0) for token in request.prompt.decoder_ids]
        self._search = self._search_from(Path.of(self._prompt, 0.0))
        self._live_slots = self._slots[:1]
        self._copies: list[tuple[int, int, int]] = []
        self._settled = len(self._prompt)
        self._has_started = False
        self._is_ranked = is_plain(request) and not request.constraints.terms

    def copies(self) -> list[tuple[int, int, int]]:
        return self._copies

    def rows(self) -> list[Row]:
        request, first = self._request, self._slots[0]
        prompt = [] if self._has_started else prompt_rows(request, first)
        if self._is_at_prefix:
            # All of them count in the score, also those that the client has.
            return prompt + prefix_rows(request, first, extended_from=0)
        live = zip(self._search.live, self._live_slots, strict=True)
        return prompt + [self._row(parent, path, slot) for parent, (path, slot) in enumerate(live)]

    def _row(self, parent: int, path: Path, slot: int) -> Row:
        request, first, num_extensions = self._request, self._slots[0], 2 * self._request.search.beam.size
        if self._is_ranked:
            return Row(request, slot, first, path.ids, parent, path.total, num_extensions, is_ranked=True)
        rest, term, pending = self._open(path)
        if rest:
            return Row(request, slot, first, path.ids, parent, path.total, forced=rest[0], term=term)
        return Row(request, slot, first, path.ids, parent, path.total, num_extensions, pending=pending)

    def _open(self, path: Path) -> TermProgress:
        return term_progress(self._request.constraints.terms, (choice.term for choice in path.choices))

    def advance(self, extensions: list[Extension]) -> StepResult:
        is_prefix, self._has_started = self._is_at_prefix, True
        if is_prefix:
            choices = [extension.choice for extension in extensions]
            total = sum(choice.logprob for choice in choices)
            self._search = self._search_from(Path.of(self._prompt + choices, total))
            live = [LiveHypothesis(0, self._request.constraints.forced_ids, total)]
        else:
            if self._request.constraints.terms:
                extensions = list(self._with_missing_terms(extensions))
            # Stable, and of equal ones the earlier parent's is first.
            best = sorted(extensions, key=_by_total, reverse=True)[: 2 * self._request.search.beam.size]
            survivors = self._search.advance(best)
            self._assign_slots(survivors)
            live = [LiveHypothesis(own.parent, [own.choice.token], own.total, own.choice.term) for own in survivors]
        written = self._result()
        is_live = self._request.inspect.hypotheses and written.finish_reason is None
        return written._replace(live=live) if is_live else written

    def _with_missing_terms(self, extensions: Iterable[Extension]) -> Iterator[Extension]:
        """Put missing terms in the place of an end, or of a closing mark that is the most probable token."""
        request = self._request
        pending = [self._open(path).pending for path in self._search.live]
        seen: set[int] = set()
        given: set[int] = set()
        for extension in extensions:
            parent = extension.parent
            ends = (self._eos_id,) if parent in seen else (self._eos_id, *request.constraints.closing_ids)
            seen.add(parent)
            other = replace_early_end(extension, request.constraints.terms, pending[parent], ends)
            if other is extension:
                yield extension
            elif parent not in given:  # after such a mark the end is possible, too
                given.add(parent)
                yield other

    def plain_state(self) -> PlainState | None:
        return None

    @property
    def _is_at_prefix(self) -> bool:
        return bool(self._request.constraints.forced_ids) and not self._has_started

    def _search_from(self, start: Path) -> BeamSearch:
        beam = self._request.search.beam
        return BeamSearch(beam.size, beam.length_penalty, self._eos_id, start)

    def _assign_slots(self, survivors: Sequence[Extension]) -> None:
        """Assign slots to the survivors: a runner in multi-step decoding has assigned them the same ones."""
        old = self._live_slots
        self._live_slots = [old[survivor.parent] for survivor in survivors]
        self._copies = []
        inherited = set(self._live_slots)
        if len(inherited) == len(survivors):
            return
        free = [slot for slot in reversed(self._slots) if slot not in inherited]
        for rank, slot in enumerate(self._live_slots):
            if slot in inherited:
                inherited.remove(slot)
            else:
                self._live_slots[rank] = free.pop()
                self._copies.append((slot, self._live_slots[rank], len(self._search.live[rank].ids)))

    def _result(self) -> StepResult:
        search, request = self._search, self._request
        if search.live and len(search.live[0].choices) < len(self._prompt) + request.search.max_new_tokens:
            return StepResult(self._unreported(search.settled(self._settled)))
        best, *others = search.best(1 + request.search.beam.alternatives)
        reason: FinishReason = "stop" if best.choices[-1].token == self._eos_id else "length"
        rest = self._unreported(best.choices[self._settled :])
        if not rest:
            raise SearchDiffers
        start = len(self._prompt)
        return StepResult(rest, reason, [Path.of(other.choices[start:], other.total) for other in others])

    def _unreported(self, choices: list[Choice]) -> list[Choice]:
        """Return the choices without those that the client has from an engine that died. Raises `SearchDiffers`."""
        sent = self._request.resume.sent_ids[self._settled - len(self._prompt) :][: len(choices)]
        if [choice.token for choice in choices[: len(sent)]] != sent:
            raise SearchDiffers
        self._settled += len(choices)
        return choices[len(sent) :]
