"""Everything that a caller can be told.

    ServiceError
    +-- InvalidRequest      400  the request is wrong; names the field
    +-- TooLong             413  a text, a sentence or a body over its limit
    +-- QueueFull           429  try again after `retry_after_seconds`
    +-- NotReady            503  starting, or draining
    +-- EngineFailed        500  the step that held the request failed
    +-- DeadlineExceeded    504  `timeout_seconds` are over

Code below `api` raises these; `api` turns them into an answer or an SSE `error` event, in one place.
"""

from typing import ClassVar


class ServiceError(Exception):
    """Base; `code` is stable and machine-readable, the message is for people."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    retry_after_seconds: ClassVar[int | None] = None

    @property
    def message(self) -> str:
        return str(self)


class InvalidRequest(ServiceError):
    """`field` is the name that the caller used."""

    status = 400
    code = "invalid_request"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")


class TooLong(ServiceError):
    """Refused whole: nothing is ever truncated silently."""

    status = 413
    code = "too_long"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")


class QueueFull(ServiceError):
    status = 429
    code = "queue_full"
    retry_after_seconds = 1


class NotReady(ServiceError):
    status = 503
    code = "not_ready"
    retry_after_seconds = 2


class EngineFailed(ServiceError):
    status = 500
    code = "engine_failed"


class DeadlineExceeded(ServiceError):
    status = 504
    code = "deadline_exceeded"
