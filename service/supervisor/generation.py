"""A request on its way through the engines: the request, its reports so far, and those who read them."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from service.engine.generation_request import GenerationRequest, Resume
from service.engine.messages import BeamReport, FinishReason, SegmentReport, TokenReport, TokenRun
from service.errors import DeadlineExceeded, ServiceError
from service.supervisor.deaths import NO_DEATHS

_MOST_AT_ONCE: Final = 64
"""Reports that one `read` returns: the reader makes events of them, and must let others have their turn."""


class Reader:
    """One reader of a generation, with a position and an end of its own."""

    def __init__(self, generation: "Generation", *, follows: bool) -> None:
        self.generation = generation
        self.follows = follows
        """True if another reader has brought the request."""
        self.submitted_at = time.monotonic()
        self._failure: ServiceError | None = None
        self._read_count = 0
        self._arrived = asyncio.Event()

    @property
    def admitted_at(self) -> float | None:
        """The time since which an engine works for this reader; None before."""
        admitted_at = self.generation.admitted_at
        return None if admitted_at is None else max(admitted_at, self.submitted_at)

    @property
    def tokens(self) -> list[TokenReport]:
        """A report for each token so far."""
        return self.generation.tokens

    def close(self) -> None:
        """Leave the generation; the last reader that leaves cancels the request. May be called twice."""
        self.generation.remove_reader(self)

    def fail(self, error: ServiceError) -> None:
        """Have `read` raise `error` instead of returning more reports, to this reader alone."""
        self._failure = error
        self.wake()

    def wake(self) -> None:
        """Have a waiting `read` look again."""
        self._arrived.set()

    def continue_alone(self) -> "Generation":
        """Leave a generation that has failed for one of its own, which has the same request and reports."""
        self.generation = self.generation.copy(self)
        self.follows = False
        return self.generation

    @property
    def failure(self) -> ServiceError | None:
        return self._failure or self.generation.failure

    @property
    def has_unread(self) -> bool:
        """True if `read` returns reports at once."""
        return self._read_count < len(self.generation.reports) and self.failure is None

    async def read_tokens(self, deadline: float) -> list[TokenReport]:
        """Return new tokens as `read` does, for a request without hypotheses."""
        assert not self.generation.request.inspect.hypotheses
        return _token_reports(self.generation.request_id, await self.read(deadline))

    async def read(self, deadline: float) -> list[SegmentReport]:
        """Return what has come since the last call, 1 to 64 reports; [] once all was read.

        `deadline` is on the event loop's clock. Raises `DeadlineExceeded`, and whatever the request was failed with.
        """
        if self._read_count == len(self.generation.reports) and self.failure is None:
            if self.generation.finished:
                return []
            self._arrived.clear()
            # Several times a step, so no `asyncio.timeout_at`, which takes as long as all the rest of a wait.
            timer = asyncio.get_running_loop().call_at(deadline, self._arrived.set)
            try:
                await self._arrived.wait()
            finally:
                timer.cancel()
            if self._read_count == len(self.generation.reports) and self.failure is None:
                raise DeadlineExceeded("the translation was not finished in time")
        if self.failure is not None:
            raise self.failure
        fresh = self.generation.reports[self._read_count : self._read_count + _MOST_AT_ONCE]
        self._read_count += len(fresh)
        return fresh


class Generation:
    """One request, its reports so far, and its readers, each of which reads all reports.

    It is over when it is finished, has failed, or has no reader any more. Then it forgets its readers: a reference
    cycle would be garbage for a while, with all tokens.
    """

    def __init__(
        self, request: GenerationRequest, on_end: Callable[["Generation", list[Reader]], None] | None = None
    ) -> None:
        """`on_end` is called once, when the request is over for any reason, with the readers that it had."""
        self.request = request
        self._on_end = on_end
        self.request_id = 0
        """The id for the engine that has the request, set by `move`."""
        self._cancel: Callable[[Generation], None] | None = None
        self.submitted_at = time.monotonic()
        self.queued_at = self.submitted_at
        """The time at which the present engine got the request."""
        self.admitted_at: float | None = None
        self.last_token_at: float | None = None
        self.deaths = NO_DEATHS
        """Engines that have died with this request since its last new token."""
        self.reports: list[SegmentReport] = []
        self.failure: ServiceError | None = None
        self._finish_reason: FinishReason | None = None
        self._beams_sent = 0
        self._beams_to_skip = 0
        self._readers: dict[Reader, None] = {}

    @property
    def size(self) -> int:
        """The number of slots that the request takes."""
        return self.request.search.beam.size

    @property
    def finished(self) -> bool:
        return self._finish_reason is not None

    @property
    def tokens(self) -> list[TokenReport]:
        """A report for each token so far."""
        return _token_reports(self.request_id, self.reports)

    def add_reader(self) -> Reader:
        """Return another reader, which reads the reports so far, too."""
        reader = Reader(self, follows=bool(self._readers) or self.finished)
        if not self.finished:
            self._readers[reader] = None
        return reader

    def remove_reader(self, reader: Reader) -> None:
        """Cancel the request if this was its last reader; do nothing if it is over."""
        if reader in self._readers:
            del self._readers[reader]
            if not self._readers:
                if self._cancel is not None:
                    self._cancel(self)
                self._end()

    def copy(self, reader: Reader) -> "Generation":
        """Return a generation with the same request and reports so far, for one reader."""
        copied = Generation(self.request)
        copied.submitted_at, copied.admitted_at = reader.submitted_at, reader.admitted_at
        copied.reports = [*self.reports]
        copied._readers[reader] = None
        return copied

    def move(self, request_id: int, cancel: Callable[["Generation"], None]) -> None:
        """Give the request another id, and `cancel` of the replica that has it from now on."""
        self.request_id = request_id
        self._cancel = cancel

    def deliver(self, tokens: TokenReport | TokenRun) -> None:
        self.deaths = NO_DEATHS
        self._finish_reason = tokens.finish_reason
        self._report(tokens)
        if self.finished:
            self._end()

    def deliver_beam(self, beam: BeamReport) -> None:
        if self._beams_to_skip > 0:
            self._beams_to_skip -= 1  # reported by an engine that died: the search was started again
            return
        self.deaths = NO_DEATHS
        self._beams_sent += 1
        self._report(beam)

    def fail(self, error: ServiceError) -> None:
        """End the request; its readers get `error` instead of more tokens, unless they continue without it."""
        self.failure = error
        for reader in self._end():
            if reader.generation is self:
                reader.wake()

    def continuation(self) -> GenerationRequest:
        """Return the request that lets an engine continue where the last one stopped; call it once for each engine."""
        self._beams_to_skip = self._beams_sent
        tokens = self.tokens
        resumed = self.request.resume
        sent = [*resumed.sent_ids, *(token.token_id for token in tokens)]
        # A beam is searched again from its start; a single hypothesis continues after the tokens already sent.
        continues = self.request.search.beam.size == 1 and len(sent) > len(self.request.constraints.forced_ids)
        forced = sent if continues else self.request.constraints.forced_ids
        terms = [*resumed.sent_terms, *(token.term for token in tokens)] if self.request.constraints.terms else []
        constraints = msgspec.structs.replace(self.request.constraints, forced_ids=forced)
        resume, draft = Resume(sent, terms), [] if tokens else self.request.draft
        return msgspec.structs.replace(self.request, constraints=constraints, resume=resume, draft=draft)

    def _report(self, report: SegmentReport) -> None:
        self.reports.append(report)
        for reader in self._readers:
            reader.wake()

    def _end(self) -> list[Reader]:
        """Forget the readers; return those that there were."""
        readers, self._readers = [*self._readers], {}
        if self._on_end is not None:
            self._on_end(self, readers)
        return readers


def _token_reports(request_id: int, reports: Iterable[SegmentReport]) -> list[TokenReport]:
    """Return a report for each token of `reports`."""
    tokens: list[TokenReport] = []
    for report in reports:
        if isinstance(report, TokenRun):
            tokens += report.reports(request_id)
        elif isinstance(report, TokenReport):
            tokens.append(report)
    return tokens
