"""Continuous batching (Yu et al. 2022, Orca), decided one block of steps at a time.

Requests wait first come, first served, except that those whose engine died after their first tokens come before those
without a token: their readers have begun. Every step, up to `max_prefill` of them take the slots that they need, one or
as many as their beam is wide: that bounds how long an encoder batch can hold up the streams already running. So does
`MAX_PREFIX_ROWS` for the forced prefixes and drafts that they bring. All requests with slots advance in the same step,
whatever their age; a request leaves at its own last token, and its slots are free in the next plan. Cancelling works
the same way, from the queue or from the slots.

In a step in which others get their first token, requests that yield (`GenerationRequest.yields_to_new`) are left out:
the step is short without them. Never twice in a row, so that they advance, too.

Requests that only need tokens (`sequences.plain`) are numbers in a table, by slot; all others are objects with rows.

Pure Python: no torch, no clock, no input or output.
"""

import heapq
import logging
import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, NamedTuple

from msgspec.structs import replace

from model.beam_search import Choice, Extension
from service.engine.generation_request import GenerationRequest
from service.engine.messages import Alternative, BeamReport, TokenReport
from service.engine.sequences.beam import BeamSequence
from service.engine.sequences.plain import PlainTable
from service.engine.sequences.rows import SearchDiffers, TargetSequence
from service.engine.sequences.single import SingleSequence

logger = logging.getLogger(__name__)

MAX_PREFIX_ROWS: Final = 128
"""Rows of forced prefixes and drafts in one step, at most, unless a single request brings more."""


@dataclass(frozen=True, slots=True)
class Running:
    """A request that holds slots; its source is in the first."""

    request_id: int
    request: GenerationRequest
    slots: list[int]
    sequence: TargetSequence


@dataclass(frozen=True, slots=True)
class Plan:
    """One block of steps: encode `admitted`, then advance all requests, except those that yield.

    These are `running`, and the plain ones with the slots `plain`.
    """

    admitted: tuple[Running, ...]
    running: tuple[Running, ...]
    plain: list[int]


class Progress(NamedTuple):
    """The reports of a step, and the ids of requests that cannot go on."""

    tokens: list[TokenReport]
    beams: list[BeamReport]
    failed: list[int]


class Scheduler:
    """The queue, the running requests and their slots. See the module's text for the algorithm."""

    def __init__(self, *, slots: int, max_prefill: int, bos_id: int, eos_id: int, is_recurrent: bool = False) -> None:
        """`is_recurrent` describes the decoder, for `SingleSequence`."""
        self.bos_id = bos_id
        self.eos_id = eos_id
        self._is_recurrent = is_recurrent
        self._max_prefill = max_prefill
        # Lowest slot first keeps the buffer's used part compact.
        self._free_slots = list(range(slots))
        self._waiting: deque[tuple[int, GenerationRequest]] = deque()
        self._running: dict[int, Running] = {}
        self._with_rows: dict[int, Running] = {}
        """The running requests outside the table."""
        self._plain: dict[int, Running] = {}
        """The running requests in the table, by slot."""
        self.table = PlainTable(slots, bos_id, eos_id)
        self._has_yielded = False
        self._slots = slots

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def admits_more(self) -> bool:
        """True if the next request waits for a turn of the encoder, not for slots."""
        return bool(self._waiting) and self._waiting[0][1].search.beam.size <= len(self._free_slots)

    @property
    def slots_used(self) -> int:
        return self._slots - len(self._free_slots)

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self._running)

    def add(self, request_id: int, request: GenerationRequest) -> None:
        """Queue a request whose beam is no wider than all slots."""
        assert request.search.beam.size <= self._slots
        if request.resume.sent_ids:
            ahead = sum(1 for _ in takewhile(lambda entry: entry[1].resume.sent_ids, self._waiting))
            self._waiting.insert(ahead, (request_id, request))
        else:
            self._waiting.append((request_id, request))

    def cancel(self, request_id: int) -> None:
        """Drop a request; unknown and finished ones are ignored."""
        if request_id in self._running:
            self._release(request_id)
        else:
            self._waiting = deque(entry for entry in self._waiting if entry[0] != request_id)

    def schedule(self) -> Plan:
        """Admit requests that fit; return the requests that advance in a fixed order (by their first slots)."""
        admitted: list[Running] = []
        prefix_rows = 0
        while self._waiting and len(admitted) < self._max_prefill:
            request_id, request = self._waiting[0]
            prefix_rows += len(request.constraints.forced_ids) + len(request.draft)
            # Nobody overtakes: a wide beam waits for its slots, and later requests wait for it.
            if request.search.beam.size > len(self._free_slots) or (admitted and prefix_rows > MAX_PREFIX_ROWS):
                break
            self._waiting.popleft()
            slots = [heapq.heappop(self._free_slots) for _ in range(request.search.beam.size)]
            sequence = sequence_of(request, slots, self.eos_id, is_recurrent=self._is_recurrent)
            running = Running(request_id, request, slots, sequence)
            self._running[request_id] = running
            self._with_rows[request_id] = running
            self._make_plain(running)
            admitted.append(running)
        return self._plan(admitted)

    def _make_plain(self, running: Running) -> None:
        """Move a request to the table if it is plain from now on."""
        state = running.sequence.plain_state()
        if state is not None:
            [slot] = running.slots
            self.table.put(slot, running.request_id, running.request, state)
            del self._with_rows[running.request_id]
            self._plain[slot] = running

    def _plan(self, admitted: Sequence[Running]) -> Plan:
        """Let all go on; those that yield do not where one that was just admitted does not yield."""
        with_rows: Iterable[Running] = self._with_rows.values()
        plain: Iterable[int] = self._plain
        self._has_yielded = not self._has_yielded and any(not each.request.yields_to_new for each in admitted)
        if self._has_yielded:
            new = {each.request_id for each in admitted}
            goes_on = new | {key for key, each in self._running.items() if not each.request.yields_to_new}
            with_rows = [each for each in with_rows if each.request_id in goes_on]
            plain = [slot for slot, each in self._plain.items() if each.request_id in goes_on]
        return Plan(tuple(admitted), tuple(sorted(with_rows, key=lambda each: each.slots[0])), sorted(plain))

    def update(self, plan: Plan, steps: Iterable[Iterable[list[Extension]]]) -> Progress:
        """Advance each of `plan.running` by its rows' extensions, step by step; free the slots of finished ones.

        A request that fails here, by any error, ends alone.
        """
        progress = Progress([], [], [])
        for running, own in zip(plan.running, steps, strict=True):
            try:
                for extensions in own:
                    self._advance(running, extensions, progress)
                if running.request_id in self._running:
                    self._make_plain(running)
            except Exception as error:
                if not isinstance(error, SearchDiffers):
                    logger.exception("a request failed on the results of a step")
                progress.failed.append(running.request_id)
                self._release(running.request_id)
        return progress

    def _advance(self, running: Running, extensions: list[Extension], progress: Progress) -> None:
        for each in extensions:
            if math.isnan(each.choice.logprob):
                raise ArithmeticError("the model's logits are not numbers")
        written = running.sequence.advance(extensions)
        tokens = [_report(running.request_id, each) for each in written.choices]
        if written.finish_reason is not None:
            alternatives = tuple(
                Alternative([_report(running.request_id, _bare(each)) for each in path.choices], path.total)
                for path in written.alternatives
            )
            tokens[-1] = replace(tokens[-1], finish_reason=written.finish_reason, alternatives=alternatives)
            self._release(running.request_id)
        progress.tokens.extend(tokens)
        if written.live:
            progress.beams.append(BeamReport(running.request_id, [*written.live]))

    def end(self, slots: Iterable[int]) -> list[int]:
        """Free the slots of plain requests that have ended; returns the requests' ids."""
        ids = [self._plain[slot].request_id for slot in slots]
        for request_id in ids:
            self._release(request_id)
        return ids

    def fail(self, plan: Plan) -> list[int]:
        """End the requests of a step that failed; returns their ids."""
        ids = [each.request_id for each in plan.running]
        for request_id in ids:
            self._release(request_id)
        return ids + self.end(plan.plain)

    def _release(self, request_id: int) -> None:
        slots = self._running.pop(request_id).slots
        if self._with_rows.pop(request_id, None) is None:
            del self._plain[slots[0]]
        for slot in slots:
            heapq.heappush(self._free_slots, slot)


def _bare(choice: Choice) -> Choice:
    """Drop the decoder's own attention of an alternative, which is much; that to the source places terms."""
    return choice._replace(inspection=choice.inspection._replace(self_attention=None))


def _report(request_id: int, choice: Choice) -> TokenReport:
    return TokenReport(request_id, choice.token, choice.logprob, term=choice.term, inspection=choice.inspection)


def sequence_of(
    request: GenerationRequest, slots: Sequence[int], eos_id: int, *, is_recurrent: bool = False
) -> TargetSequence:
    """Return the sequence of a request that has just been given its slots."""
    if request.search.beam.size > 1:
        return BeamSequence(request, slots, eos_id)
    return SingleSequence(request, slots, eos_id, is_recurrent=is_recurrent)
