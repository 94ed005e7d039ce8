"""The requests of one replica: which its engine has, which wait, and which are suspected of killing engines."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from service.engine.messages import Admitted, Cancel, Command, StepReport, Submit, TokenReport, TokenRun
from service.errors import EngineFailed, RequestFailed
from service.supervisor.generation import Generation


def _nobody(*_: object) -> None: ...


class EngineObserver(NamedTuple):
    """The receivers of one engine's measurements."""

    step: Callable[[StepReport], None] = _nobody
    admitted: Callable[[Sequence[float]], None] = _nobody
    first_tokens: Callable[[Sequence[float]], None] = _nobody
    next_tokens: Callable[[Sequence[float], int], None] = _nobody
    """Gets the times since the tokens before, and how many more have come with the one before."""
    restarted: Callable[[], None] = _nobody


class _Waits(NamedTuple):
    """The times for which requests have waited for a report that came `now`: for the first token, or for the next."""

    now: float
    first: list[float]
    next: list[float]


class EngineRequests:
    """The requests in flight of one replica, whichever engine process it has at the moment.

    Every request's whole state is here, in its `Generation`, so that an engine can be replaced: the next one gets the
    tokens already received as a forced prefix, and the reader notices only a pause. Decides which requests the engine
    gets, and passes the commands to `send`. Knows no process and no socket.
    """

    def __init__(self, observer: EngineObserver, send: Callable[[Command], None]) -> None:
        self._observer = observer
        self._send = send
        self._generations: dict[int, Generation] = {}
        self._has_engine = False
        self._sent: set[int] = set()
        """Ids of the requests that the present engine has."""
        self._admitted: set[int] = set()
        """Ids of the requests that the present engine has let into its slots."""
        self._submits = 0
        """The number of requests that the present engine was given, those that it has no more included."""
        self._suspects: list[Generation] = []
        self._next_id = 0
        self.load = 0
        """Slots that the requests hold or need."""

    def __len__(self) -> int:
        return len(self._generations)

    @property
    def in_flight(self) -> list[Generation]:
        """A copy, the requests that came first at the beginning."""
        return [*self._generations.values()]

    @property
    def movable(self) -> list[Generation]:
        """The requests that another replica could take: no engine works on them, and none of them is a suspect."""
        free = (each for each in self._generations.values() if each.request_id not in self._admitted)
        return [each for each in free if each not in self._suspects]

    @property
    def running(self) -> int:
        """The number of requests in an engine's slots, whether it still responds or not."""
        return len(self._admitted)

    @property
    def waiting(self) -> int:
        """The number of requests that wait for slots, or for an engine."""
        return len(self._generations) - len(self._admitted)

    @property
    def sent(self) -> int:
        """The number of requests that the engine has."""
        return len(self._sent)

    @property
    def has_suspects(self) -> bool:
        """True while the engine is reserved for suspects, and other requests wait."""
        return bool(self._suspects)

    def take(self, generation: Generation) -> None:
        """Take a request that is new, or that another replica has released."""
        generation.move(self._new_id(), self._cancel)
        self._hold(generation)
        if self._has_engine and not self._suspects:
            self._submit(generation)

    def release(self, generation: Generation) -> None:
        """Give up a request, for another replica to take."""
        if generation.request_id in self._sent:
            self._send(Cancel(generation.request_id))
        self._remove(generation)

    def engine_started(self) -> None:
        """Have the new engine continue the requests."""
        self._has_engine = True
        self._submits = 0
        self._dispatch()

    def engine_ended(self) -> bool:
        """Record that all requests wait again, and whom to blame. Return True if the cause was found, and failed."""
        self._has_engine = False
        held = [each for each in self.in_flight if each.request_id in self._sent]
        for each in held:
            self._count_death(each)
        self._sent.clear()
        self._admitted.clear()
        causes = [each for each in held if each.deaths.are_proof]
        died = "the engine died each time it ran this request, last with no other request in it"
        self.fail(causes, RequestFailed(died))
        self._suspects = [each for each in self.in_flight if each.deaths.are_suspicious]
        return bool(causes)

    def _count_death(self, generation: Generation) -> None:
        is_admitted = generation.request_id in self._admitted
        if not self._suspects:
            generation.deaths = generation.deaths.with_another(is_admitted=is_admitted)
        elif is_admitted or self._submits == 1:
            # Otherwise the engine may have died of the suspect before, whose cancellation it had not read yet.
            generation.deaths = generation.deaths.with_another_alone()

    def fail(self, generations: Iterable[Generation], error: EngineFailed) -> None:
        """Fail those of `generations` that are still in flight."""
        for generation in generations:
            if generation.request_id in self._generations:
                self._cancel(generation)
                generation.fail(error)

    def handle_admitted(self, report: Admitted) -> None:
        self._observer.admitted(report.queue_seconds)
        for request_id, seconds in zip(report.request_ids, report.queue_seconds, strict=True):
            if generation := self._generations.get(request_id):
                generation.admitted_at = generation.admitted_at or generation.queued_at + seconds
                self._admitted.add(request_id)

    def handle_step(self, report: StepReport) -> None:
        """Deliver what a block of steps has generated, and fail the requests that it could not continue."""
        self._observer.step(report)
        now = time.monotonic()
        waits = _Waits(now, [], [])
        for token in report.tokens:
            self._deliver(token.request_id, token, waits)
        for request_id, run in report.block.runs():
            self._deliver(request_id, run, waits)
        self._observer.first_tokens(waits.first)
        self._observer.next_tokens(waits.next, report.block.tokens - len(report.block.counts))
        for beam in report.beams:
            if beam.request_id in self._generations:
                self._generations[beam.request_id].deliver_beam(beam)
        failed = [self._generations[each] for each in report.failed if each in self._generations]
        in_step = "the request failed in a step, or its repeated search differs from what was sent"
        self.fail(failed, RequestFailed(in_step))
        self._clear_suspects()

    def _deliver(self, request_id: int, tokens: TokenReport | TokenRun, waits: "_Waits") -> None:
        generation = self._generations.get(request_id)
        if generation is None:
            return  # cancelled while this report was on its way
        if generation.last_token_at is None:
            waits.first.append(waits.now - generation.submitted_at)
        else:
            waits.next.append(waits.now - generation.last_token_at)
        generation.last_token_at = waits.now
        generation.deliver(tokens)
        if tokens.finish_reason is not None:
            self._remove(generation)

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def _hold(self, generation: Generation) -> None:
        self._generations[generation.request_id] = generation
        self.load += generation.size

    def _remove(self, generation: Generation) -> None:
        self._sent.discard(generation.request_id)
        self._admitted.discard(generation.request_id)
        del self._generations[generation.request_id]
        self.load -= generation.size

    def _cancel(self, generation: Generation) -> None:
        if generation.request_id in self._generations:
            self.release(generation)
            self._clear_suspects()

    def _clear_suspects(self) -> None:
        """Run the next suspect, or at last all requests, once a suspect has a new token or has ended."""
        if self._suspects:
            left = [each for each in self._suspects if each.request_id in self._generations]
            self._suspects = [each for each in left if each.deaths.are_suspicious]
            self._dispatch()

    def _dispatch(self) -> None:
        """Submit what the engine may have now: one suspect alone, or all requests."""
        if not self._has_engine:
            return
        if not self._suspects:
            for each in self.in_flight:
                if each.request_id not in self._sent:
                    self._submit(each)
            return
        # The cause of a death comes after the suspects that only were in its company.
        suspect = min(self._suspects, key=lambda each: each.deaths.alone)
        if self._sent != {suspect.request_id}:
            for each in self.in_flight:
                if each.request_id in self._sent:
                    self._withdraw(each)
            self._submit(suspect)

    def _submit(self, generation: Generation) -> None:
        generation.queued_at = time.monotonic()
        self._sent.add(generation.request_id)
        self._submits += 1
        self._send(Submit(generation.request_id, generation.continuation(), generation.queued_at))

    def _withdraw(self, generation: Generation) -> None:
        """Take a request back from the engine; with a new id, so that a report on its way is not taken for a later one.

        What is in such a report is generated again.
        """
        self.release(generation)
        generation.move(self._new_id(), self._cancel)
        self._hold(generation)
