"""Continuous batching (Yu et al. 2022, Orca), decided one step at a time.

Requests wait first come, first served. Every step, up to `max_prefill` of them take a free slot: that
bounds how long an encoder batch can hold up the streams already running. All requests with a slot
advance by one token in the same step, whatever their age; a request leaves at its own last token, and
its slot is free in the next plan. Cancelling works the same way, from the queue or from a slot.

Pure Python: no torch, no clock, no input or output.
"""

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from service.engine.request import FinishReason, GenerationRequest, TokenReport


@dataclass(eq=False, slots=True)
class Running:
    """A request that holds a slot."""

    request_id: int
    request: GenerationRequest
    slot: int
    tokens: list[int] = field(default_factory=list)

    @property
    def position(self) -> int:
        """Position of the decoder's next input: bos stands at 0."""
        return len(self.tokens)

    @property
    def forced(self) -> int | None:
        """The token that this step must give, if it is still replaying."""
        forced = self.request.forced_ids
        return forced[len(self.tokens)] if len(self.tokens) < len(forced) else None


@dataclass(frozen=True, slots=True)
class Plan:
    """One step: encode `admitted`, then advance `running` (which includes them) by one token."""

    admitted: tuple[Running, ...]
    running: tuple[Running, ...]


class Scheduler:
    """Who waits, who runs, in which slot. See the module's text for the algorithm."""

    def __init__(self, *, slots: int, max_prefill: int, eos_id: int) -> None:
        self._eos_id = eos_id
        self._max_prefill = max_prefill
        # Lowest slot first keeps the arena's used part compact.
        self._free_slots = list(range(slots))
        self._waiting: deque[tuple[int, GenerationRequest]] = deque()
        self._running: dict[int, Running] = {}

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self._running)

    def add(self, request_id: int, request: GenerationRequest) -> None:
        self._waiting.append((request_id, request))

    def cancel(self, request_id: int) -> None:
        """Drop a request; one that is unknown, or already finished, is none of our business."""
        if request_id in self._running:
            self._leave(request_id)
        else:
            self._waiting = deque(entry for entry in self._waiting if entry[0] != request_id)

    def schedule(self) -> Plan:
        """Admit what fits; the plan holds every running request in a fixed order (by slot)."""
        admitted: list[Running] = []
        while self._waiting and self._free_slots and len(admitted) < self._max_prefill:
            request_id, request = self._waiting.popleft()
            running = Running(request_id, request, heapq.heappop(self._free_slots))
            self._running[request_id] = running
            admitted.append(running)
        return Plan(tuple(admitted), tuple(sorted(self._running.values(), key=lambda r: r.slot)))

    def update(self, plan: Plan, sampled: Iterable[tuple[int, float]]) -> list[TokenReport]:
        """Append each row's token `(id, log-probability)`; report the new ones; free the finished."""
        reports = []
        for running, (sampled_id, logprob) in zip(plan.running, sampled, strict=True):
            forced = running.forced
            token_id = sampled_id if forced is None else forced
            running.tokens.append(token_id)
            reason = self._finish_reason(running)
            if forced is None:
                reports.append(TokenReport(running.request_id, token_id, logprob, reason))
            if reason is not None:
                self._leave(running.request_id)
        return reports

    def fail(self, plan: Plan) -> list[int]:
        """End the requests of a step that failed; returns their ids."""
        for each in plan.running:
            self._leave(each.request_id)
        return [each.request_id for each in plan.running]

    def _finish_reason(self, running: Running) -> FinishReason | None:
        if running.tokens[-1] == self._eos_id:
            return "stop"
        return "length" if len(running.tokens) >= running.request.max_new_tokens else None

    def _leave(self, request_id: int) -> None:
        heapq.heappush(self._free_slots, self._running.pop(request_id).slot)
