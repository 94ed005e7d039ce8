"""One engine request as the HTTP process sees it: what was asked, what has come back, who waits for more."""

import asyncio
import time
from collections.abc import Callable

import msgspec

from service.engine.request import GenerationRequest, TokenReport
from service.errors import DeadlineExceeded, ServiceError


class Generation:
    """One request in flight: what was asked, what has come back, and who waits for more."""

    def __init__(self, request_id: int, request: GenerationRequest, cancel: Callable[["Generation"], None]) -> None:
        self.request_id = request_id
        self.request = request
        self._cancel = cancel
        self.submitted_at = time.monotonic()
        self.admitted_at: float | None = None
        self.engines_lost = 0
        self.tokens: list[TokenReport] = []
        self._failure: ServiceError | None = None
        self._read = 0
        self._news = asyncio.Event()

    @property
    def finished(self) -> bool:
        return bool(self.tokens) and self.tokens[-1].finish_reason is not None

    def deliver(self, token: TokenReport) -> None:
        self.tokens.append(token)
        self._news.set()

    def close(self) -> None:
        """End of interest, finished or not: an unfinished request leaves its engine."""
        self._cancel(self)

    def fail(self, error: ServiceError) -> None:
        """End the request; its reader gets `error` instead of more tokens."""
        self._failure = error
        self._news.set()

    async def next_tokens(self, deadline: float) -> list[TokenReport]:
        """The tokens that have come since the last call, at least one; [] once all were read.

        `deadline` is on the event loop's clock. Raises `DeadlineExceeded`, and whatever the request was
        failed with.
        """
        if self._read == len(self.tokens) and self._failure is None:
            if self.finished:
                return []
            self._news.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._news.wait()
            except TimeoutError:
                raise DeadlineExceeded("the translation was not finished in time") from None
        if self._failure is not None:
            raise self._failure
        fresh = self.tokens[self._read :]
        self._read = len(self.tokens)
        return fresh

    def continuation(self) -> GenerationRequest:
        """The request that makes another engine go on where this one stopped."""
        told = [token.token_id for token in self.tokens]
        # A beam is searched again from its start; one hypothesis goes on behind what was told.
        told_last = self.request.beam.size == 1 and len(told) > len(self.request.forced_ids)
        forced = told if told_last else self.request.forced_ids
        terms = [token.term for token in self.tokens] if self.request.terms else []
        return msgspec.structs.replace(self.request, forced_ids=forced, told_ids=told, told_terms=terms)
