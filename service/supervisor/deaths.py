"""The deaths of engines that one request was part of, and what they prove against it. `engine_requests` acts on it.

An engine that dies takes nothing with it: the next one gets every request with the tokens already received. But a
request may be the cause of the death, and would kill the next engine, too. So each request that the engine had
admitted counts the death; a new token clears it, because it has got past the place where the engine died. After two
deaths without a new token a request is a suspect: it runs alone, one suspect after the other, until it has cleared
itself by a new token. A suspect whose engine dies three times more, with no other request in it, fails.

A request that the engine had, but had not reported as admitted, most likely only waited. But it may have killed the
engine when this took it up. So it becomes a suspect after three deaths: two are what a neighbour needs to be one.
"""

from typing import Final, NamedTuple

_SUSPECT_DEATHS: Final = 2
_SUSPECT_EARLY_DEATHS: Final = 3
_FATAL_DEATHS: Final = 3
"""Deaths of engines that had no other request: two may be a coincidence where something else kills engines."""


class Deaths(NamedTuple):
    """Numbers of engines that have died with a request since its last new token."""

    admitted: int = 0
    """Deaths after its admission."""
    early: int = 0
    """Deaths before its admission."""
    alone: int = 0
    """Deaths with no other request in the engine."""

    def with_another(self, *, is_admitted: bool) -> "Deaths":
        """Count the death of an engine that any request could be in."""
        return self._replace(admitted=self.admitted + is_admitted, early=self.early + (not is_admitted))

    def with_another_alone(self) -> "Deaths":
        """Count the death of an engine that was reserved for this request."""
        return self._replace(alone=self.alone + 1)

    @property
    def are_suspicious(self) -> bool:
        """True if the request has to run alone."""
        return self.admitted >= _SUSPECT_DEATHS or self.early >= _SUSPECT_EARLY_DEATHS

    @property
    def are_proof(self) -> bool:
        """True if the request is the cause, and fails."""
        return self.alone >= _FATAL_DEATHS


NO_DEATHS: Final = Deaths()
