"""One request in an engine that several equal requests share."""

from collections.abc import Callable
from typing import Final

from service.engine.generation_request import GenerationRequest
from service.engine.messages import TokenReport, TokenRun
from service.errors import RequestFailed, ServiceError
from service.supervisor.generation import Generation

_NOT_SUBMITTED: Final = -1


class SharedGeneration(Generation):
    """A request in flight and its readers: each of them is a `Generation` of its own, which gets every report.

    So each reader has its own position, deadline and end. A reader that leaves takes nothing from the others; the last
    one that leaves cancels the request. If the request itself is the reason of a failure, only the reader that brought
    it fails; the others have done nothing but follow, and continue on their own.
    """

    def __init__(
        self,
        request: GenerationRequest,
        decode: Callable[[Generation], None],
        on_end: Callable[["SharedGeneration"], None],
    ) -> None:
        """`decode` hands a generation to an engine; `on_end` is called once, when the request is over for any reason.

        Requests with hypotheses cannot be shared: beam reports are not kept for readers that come later.
        """
        assert not request.inspect.hypotheses
        super().__init__(_NOT_SUBMITTED, request, _cancel_nothing)
        self._decode = decode
        self._on_end = on_end
        self._readers: dict[Generation, None] = {}
        self._first = self.add_reader()

    @property
    def first(self) -> Generation:
        """The reader that brought the request."""
        return self._first

    def start(self) -> None:
        """Submit the request to an engine."""
        self._decode(self)

    def add_reader(self) -> Generation:
        """Return another reader, which has all reports so far."""
        reader = Generation(_NOT_SUBMITTED, self.request, self._leave)
        for tokens in self.token_reports:
            self._pass_on(tokens, reader)
        self._readers[reader] = None
        return reader

    def deliver(self, tokens: TokenReport | TokenRun) -> None:
        super().deliver(tokens)
        for reader in self._readers:
            self._pass_on(tokens, reader)
        if self.finished:
            self._end()

    def fail(self, error: ServiceError) -> None:
        super().fail(error)
        for reader in self._end():
            if isinstance(error, RequestFailed) and reader is not self._first:
                self._decode(reader)
            else:
                reader.fail(error)

    def _pass_on(self, tokens: TokenReport | TokenRun, reader: Generation) -> None:
        if reader.admitted_at is None and self.admitted_at is not None:
            reader.admitted_at = max(self.admitted_at, reader.submitted_at)
        reader.deliver(tokens)

    def _leave(self, reader: Generation) -> None:
        """Remove a reader that is closed."""
        del self._readers[reader]
        reader.move(_NOT_SUBMITTED, _cancel_nothing)
        if not self._readers:
            self.close()
            self._end()

    def _end(self) -> list[Generation]:
        """Call `on_end`, and return the readers, which are on their own from now on."""
        readers, self._readers = [*self._readers], {}
        # A reader that kept its way back would be a reference cycle: garbage for a while, with all tokens.
        for reader in readers:
            reader.move(_NOT_SUBMITTED, _cancel_nothing)
        self._on_end(self)
        return readers


def _cancel_nothing(generation: Generation) -> None: ...
