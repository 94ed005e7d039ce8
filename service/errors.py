"""Everything that a caller can be told.

    ServiceError
    +-- InvalidRequest      400  the request is wrong; names the field
    +-- KeyRequired         400  an API key is wanted (DeepL's routes: 403)
    +-- InvalidKey          403  that is no API key of this server
    +-- UnknownGlossary     404  none of the caller's has that id or name
    +-- TooLong             413  a text, a sentence or a body over its limit
    +-- QueueFull           429  try again after `retry_after_seconds`
    +-- RateLimited         429  too much in a minute, or at once; try again after `retry_after_seconds`
    +-- QuotaExceeded       429  too much in a month (DeepL's routes: 456)
    +-- NotReady            503  starting, draining, or no model can be used
    +-- KeysUnavailable     503  the file of the keys cannot be read or written
    +-- DamagedGlossary     500  the file of a kept glossary cannot be read
    +-- InsufficientStorage 507  a glossary cannot be written
    +-- EngineFailed        500  the step that held the request failed
    +-- DeadlineExceeded    504  `timeout_seconds` are over

Code below `api` raises these; `api` turns them into an answer or an SSE `error` event, in one place.
"""

from typing import ClassVar


class ServiceError(Exception):
    """Base; `code` is stable and machine-readable, the message is for people."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    retry_after_seconds: int | None = None

    @property
    def message(self) -> str:
        return str(self)


class InvalidRequest(ServiceError):
    """`field` is the name that the caller used."""

    status = 400
    code = "invalid_request"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")


class UnknownGlossary(ServiceError):
    status = 404
    code = "unknown_glossary"

    def __init__(self, problem: str) -> None:
        super().__init__(f"glossary_id: {problem}")


class DamagedGlossary(ServiceError):
    """Nothing that the caller can mend; others are not concerned."""

    code = "damaged_glossary"

    def __init__(self) -> None:
        super().__init__("glossary_id: the file of this glossary is damaged; its id is in the server's log")


class InsufficientStorage(ServiceError):
    """As file servers answer where the disk is full: not before somebody has made room is it worth another try."""

    status = 507
    code = "insufficient_storage"

    def __init__(self) -> None:
        super().__init__("glossaries: the server has no room for them, or may not write; nothing has changed")


class TooLong(ServiceError):
    """Refused whole: nothing is ever truncated silently."""

    status = 413
    code = "too_long"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")


class KeyRequired(ServiceError):
    """LibreTranslate answers 400 where a key is missing, 403 only where it is wrong."""

    status = 400
    code = "key_required"

    def __init__(self) -> None:
        super().__init__("api_key: this server wants an API key; ask who runs it for one")


class InvalidKey(ServiceError):
    status = 403
    code = "invalid_key"

    def __init__(self) -> None:
        super().__init__("Invalid API key")


class QueueFull(ServiceError):
    status = 429
    code = "queue_full"
    retry_after_seconds = 1


class RateLimited(ServiceError):
    status = 429
    code = "rate_limited"

    def __init__(self, problem: str, retry_after_seconds: int) -> None:
        super().__init__(problem)
        self.retry_after_seconds = retry_after_seconds


class QuotaExceeded(ServiceError):
    status = 429
    code = "quota_exceeded"

    def __init__(self, problem: str, retry_after_seconds: int) -> None:
        super().__init__(problem)
        self.retry_after_seconds = retry_after_seconds


class NotReady(ServiceError):
    status = 503
    code = "not_ready"
    retry_after_seconds = 2


class KeysUnavailable(ServiceError):
    """Nothing was counted, and nothing translated: what cannot be counted would be over no quota."""

    status = 503
    code = "keys_unavailable"
    retry_after_seconds = 5

    def __init__(self) -> None:
        super().__init__("the server cannot read or write its API keys at the moment; try again")


class EngineFailed(ServiceError):
    status = 500
    code = "engine_failed"


class DeadlineExceeded(ServiceError):
    status = 504
    code = "deadline_exceeded"
