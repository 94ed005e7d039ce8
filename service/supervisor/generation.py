"""One engine request on the HTTP process's side: the request, its reports so far, and its reader."""

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
"""Reports that one `read` returns: who reads them makes events, and must let others have their turn."""


class Generation:
    """One request in flight, its reports so far, and its reader."""

    def __init__(self, request_id: int, request: GenerationRequest, cancel: Callable[["Generation"], None]) -> None:
        self.request_id = request_id
        self.request = request
        self._cancel = cancel
        self.submitted_at = time.monotonic()
        self.queued_at = self.submitted_at
        """The time at which the present engine got the request."""
        self.admitted_at: float | None = None
        self.last_token_at: float | None = None
        self.deaths = NO_DEATHS
        """Engines that have died with this request since its last new token."""
        self._reports: list[SegmentReport] = []
        self._finish_reason: FinishReason | None = None
        self._beams_sent = 0
        self._beams_to_skip = 0
        self._failure: ServiceError | None = None
        self._read_count = 0
        self._arrived = asyncio.Event()

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
        return _token_reports(self.request_id, self._reports)

    @property
    def token_reports(self) -> list[TokenReport | TokenRun]:
        """The reports of tokens so far, as they came."""
        return [report for report in self._reports if not isinstance(report, BeamReport)]

    def move(self, request_id: int, cancel: Callable[["Generation"], None]) -> None:
        """Give the request another id, and `cancel` of the replica that has it from now on."""
        self.request_id = request_id
        self._cancel = cancel

    def deliver(self, tokens: TokenReport | TokenRun) -> None:
        self.deaths = NO_DEATHS
        self._finish_reason = tokens.finish_reason
        self._reports.append(tokens)
        self._arrived.set()

    def deliver_beam(self, beam: BeamReport) -> None:
        if self._beams_to_skip > 0:
            self._beams_to_skip -= 1  # reported by an engine that died: the search was started again
            return
        self.deaths = NO_DEATHS
        self._beams_sent += 1
        self._reports.append(beam)
        self._arrived.set()

    def close(self) -> None:
        """Cancel the request if it is not finished."""
        self._cancel(self)

    def fail(self, error: ServiceError) -> None:
        """End the request; its reader gets `error` instead of more tokens."""
        self._failure = error
        self._arrived.set()

    @property
    def has_unread(self) -> bool:
        """True if `read` returns reports at once."""
        return self._read_count < len(self._reports) and self._failure is None

    async def read_tokens(self, deadline: float) -> list[TokenReport]:
        """Return new tokens as `read` does, for a request without hypotheses."""
        assert not self.request.inspect.hypotheses
        return _token_reports(self.request_id, await self.read(deadline))

    async def read(self, deadline: float) -> list[SegmentReport]:
        """Return what has come since the last call, 1 to 64 reports; [] once all was read.

        `deadline` is on the event loop's clock. Raises `DeadlineExceeded`, and whatever the request was failed with.
        """
        if self._read_count == len(self._reports) and self._failure is None:
            if self.finished:
                return []
            self._arrived.clear()
            # Several times a step, so no `asyncio.timeout_at`, which takes as long as all the rest of a wait.
            timer = asyncio.get_running_loop().call_at(deadline, self._arrived.set)
            try:
                await self._arrived.wait()
            finally:
                timer.cancel()
            if self._read_count == len(self._reports) and self._failure is None:
                raise DeadlineExceeded("the translation was not finished in time")
        if self._failure is not None:
            raise self._failure
        fresh = self._reports[self._read_count : self._read_count + _MOST_AT_ONCE]
        self._read_count += len(fresh)
        return fresh

    def continuation(self) -> GenerationRequest:
        """Return the request that lets an engine continue where the last one stopped; call it once for each engine."""
        self._beams_to_skip = self._beams_sent
        tokens = self.tokens
        sent = [token.token_id for token in tokens]
        # A beam is searched again from its start; a single hypothesis continues after the tokens already sent.
        continues = self.request.search.beam.size == 1 and len(sent) > len(self.request.constraints.forced_ids)
        forced = sent if continues else self.request.constraints.forced_ids
        terms = [token.term for token in tokens] if self.request.constraints.terms else []
        constraints = msgspec.structs.replace(self.request.constraints, forced_ids=forced)
        return msgspec.structs.replace(self.request, constraints=constraints, resume=Resume(sent, terms))


def _token_reports(request_id: int, reports: Iterable[SegmentReport]) -> list[TokenReport]:
    """Return a report for each token of `reports`."""
    tokens: list[TokenReport] = []
    for report in reports:
        if isinstance(report, TokenRun):
            tokens += report.reports(request_id)
        elif isinstance(report, TokenReport):
            tokens.append(report)
    return tokens
