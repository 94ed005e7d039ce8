"""The requests of one engine: which it holds, which wait, and what its reports mean for each of them."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from service.engine.messages import GenerationRequest, StepReport, Submit, TokenReport
from service.errors import EngineFailed
from service.supervisor.generation import Generation

_ENGINES_PER_REQUEST: Final = 3


class EngineObserver:
    """The receiver of one engine's measurements; the methods of this base class do nothing."""

    def step(self, report: StepReport) -> None: ...

    def first_token(self, seconds: float) -> None: ...

    def next_token(self, seconds: float) -> None: ...

    def restarted(self) -> None: ...


class EngineRequests:
    """The requests in flight of one replica, whichever engine process it has at the moment.

    Every request's whole state is here, in its `Generation`, so that an engine can be replaced: the next one gets the
    tokens already received as a forced prefix, and the reader notices only a pause. Knows no process and no socket.
    """

    def __init__(self, observer: EngineObserver, cancel: Callable[[Generation], None]) -> None:
        self._observer = observer
        self._cancel = cancel
        self._generations: dict[int, Generation] = {}
        self._admitted: set[int] = set()
        """Ids of the requests that the present engine has let into its slots."""
        self._last_token_at: dict[int, float] = {}
        self._next_id = 0

    def __len__(self) -> int:
        return len(self._generations)

    @property
    def in_flight(self) -> list[Generation]:
        """A copy, in the order of submission."""
        return [*self._generations.values()]

    @property
    def load(self) -> int:
        """Slots that the requests hold or need."""
        return sum(generation.request.search.beam.size for generation in self._generations.values())

    @property
    def running(self) -> int:
        return len(self._admitted)

    @property
    def waiting(self) -> int:
        return len(self._generations) - len(self._admitted)

    def add(self, request: GenerationRequest) -> Generation:
        generation = Generation(self._next_id, request, self._cancel)
        self._next_id += 1
        self._generations[generation.request_id] = generation
        return generation

    def remove(self, request_id: int) -> bool:
        """Return False for a request that was finished or removed before."""
        self._last_token_at.pop(request_id, None)
        self._admitted.discard(request_id)
        return self._generations.pop(request_id, None) is not None

    def continuations(self) -> Iterator[Submit]:
        """Yield the commands that make a new engine continue every request."""
        for generation in self.in_flight:
            generation.queued_at = time.monotonic()
            yield Submit(generation.request_id, generation.continuation(), generation.queued_at)

    def engine_ended(self) -> None:
        """Record that no engine holds any request: all of them wait again."""
        self._admitted.clear()

    def fail_suspects(self) -> None:
        """Fail the requests that were in flight at several deaths, any of which may be the cause of these deaths."""
        for generation in self.in_flight:
            generation.engines_lost += 1
            if generation.engines_lost >= _ENGINES_PER_REQUEST:
                self._fail(generation, "several engines died while they held this request")

    def fail(self, generations: Iterable[Generation], reason: str) -> None:
        """Fail those of `generations` that are still in flight."""
        for generation in generations:
            if generation.request_id in self._generations:
                self._fail(generation, reason)

    def _fail(self, generation: Generation, reason: str) -> None:
        generation.close()
        generation.fail(EngineFailed(reason))

    def handle_step(self, report: StepReport) -> None:
        """Deliver what one step has generated, and fail the requests that it could not continue."""
        self._observer.step(report)
        for request_id, seconds in zip(report.stats.admitted, report.stats.queue_seconds, strict=True):
            if generation := self._generations.get(request_id):
                generation.admitted_at = generation.admitted_at or generation.queued_at + seconds
                self._admitted.add(request_id)
        for token in report.tokens:
            self._deliver(token)
        for beam in report.beams:
            if beam.request_id in self._generations:
                self._generations[beam.request_id].deliver_beam(beam)
        for request_id in report.failed:
            if request_id in self._generations:
                reason = "the request failed in a step, or its repeated search differs from what was sent"
                self._fail(self._generations[request_id], reason)

    def _deliver(self, token: TokenReport) -> None:
        generation = self._generations.get(token.request_id)
        if generation is None:
            return  # cancelled while this report was on its way
        now = time.monotonic()
        if (last := self._last_token_at.get(token.request_id)) is None:
            self._observer.first_token(now - generation.submitted_at)
        else:
            self._observer.next_token(now - last)
        self._last_token_at[token.request_id] = now
        generation.deliver(token)
        if token.finish_reason is not None:
            self.remove(token.request_id)
