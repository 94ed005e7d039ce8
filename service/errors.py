"""All errors that a caller can receive.

    ServiceError
    +-- InvalidRequest      400  the request is wrong; the message names the field
    |   +-- MissingField         a field that is required is missing
    |   +-- UnknownLanguage      no model has the language
    |   +-- UnsupportedFormat    documents of this format cannot be translated
    +-- KeyRequired         400  an API key is required (DeepL's routes: 403, OpenAI's: 401)
    +-- InvalidKey          403  the API key is unknown to this server (OpenAI's routes: 401)
    +-- SuggestionsDisabled 403  the server does not store suggestions
    +-- UnknownModel        404  an unknown name of a model, from OpenAI's clients
    +-- UnknownGlossary     404  an unknown id or name of a glossary
    +-- UnknownDocument     404  an unknown id, or a document that is gone
    +-- UnknownSession      404  an unknown id of a live session, or one that has ended
    +-- DocumentNotReady    409  the document is still being translated
    +-- TooLong             413  a text, a sentence or a body exceeds its limit
    +-- QueueFull           429  retry after `retry_after_seconds`
    +-- RateLimited         429  a limit per minute or of streams is exceeded; retry after `retry_after_seconds`
    +-- QuotaExceeded       429  the monthly quota is exceeded (DeepL's routes: 456)
    +-- NotReady            503  starting, draining, or no usable model
    +-- KeysUnavailable     503  the key file cannot be read or written
    +-- DamagedGlossary     500  the file of a stored glossary cannot be read
    +-- InsufficientStorage 507  a glossary, a suggestion or a document cannot be written
    +-- EngineFailed        500  the engine failed in a step of the request
    |   +-- RequestFailed        the request itself is probably the reason
    +-- DeadlineExceeded    504  `timeout_seconds` have passed

Modules below `api` raise them; `api` converts them to a response or an SSE `error` event, in one place.
"""

import asyncio
from collections.abc import Iterable
from typing import ClassVar


def is_error(raised: BaseException) -> bool:
    """Return False for a cancellation or the end of the process or of a generator, True for everything else.

    A panic in a Rust library is an error outside of `Exception`: borders catch `BaseException` and call this.
    """
    return not isinstance(raised, asyncio.CancelledError | GeneratorExit | KeyboardInterrupt | SystemExit)


class CallerLeft(Exception):
    """The end of a request whose client has disconnected before the response."""


class ServiceError(Exception):
    """Base of all errors; `code` is stable and machine-readable, the message is written for people."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    retry_after_seconds: int | None = None
    _MESSAGE: ClassVar[str] = ""
    """The message of a class whose errors have all the same one."""

    def __str__(self) -> str:
        return super().__str__() or self._MESSAGE

    @property
    def message(self) -> str:
        return str(self)


class _FieldError(ServiceError):
    """An error about `field`, by the name that the caller used."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


class InvalidRequest(_FieldError):
    status = 400
    code = "invalid_request"


class MissingField(InvalidRequest):
    pass


class UnsupportedFormat(InvalidRequest):
    pass


class UnknownLanguage(InvalidRequest):
    """A language that cannot be translated; `given` is the code in the caller's spelling."""

    def __init__(self, field: str, given: str, available: Iterable[str]) -> None:
        super().__init__(field, f"{given} is not supported; available: {', '.join(available)}")
        self.given = given


class UnknownModel(ServiceError):
    status = 404
    code = "model_not_found"

    def __init__(self, name: str) -> None:
        super().__init__(f"model: there is no {name[:64]}; `GET /v1/models` lists the models")


class UnknownGlossary(ServiceError):
    status = 404
    code = "unknown_glossary"

    def __init__(self, problem: str) -> None:
        super().__init__(f"glossary_id: {problem}")


class UnknownDocument(ServiceError):
    """An unknown id, or the id of a document that is gone."""

    status = 404
    code = "unknown_document"
    _MESSAGE = "document_id: no such document: it was downloaded, deleted or expired, or the server restarted"


class UnknownSession(ServiceError):
    """An unknown id, or the id of a live session that has ended."""

    status = 404
    code = "unknown_session"
    _MESSAGE = "session: no such live session: it has ended, or another server has it; begin a new one"


class DocumentNotReady(ServiceError):
    status = 409
    code = "document_not_ready"
    _MESSAGE = "document_id: the document is still being translated"


class DamagedGlossary(ServiceError):
    """A stored glossary that cannot be read. The caller cannot repair it; other glossaries are not affected."""

    code = "damaged_glossary"
    _MESSAGE = "glossary_id: the file of this glossary is damaged; its id is in the server's log"


class InsufficientStorage(_FieldError):
    """A full or read-only disk. A retry can succeed only after an administrator has made room."""

    status = 507
    code = "insufficient_storage"
    _DISK: ClassVar[str] = "the server's disk is full or read-only; nothing has changed"

    def __init__(self, field: str, problem: str = _DISK) -> None:
        super().__init__(field, problem)


class TooLong(_FieldError):
    """An input that exceeds a limit. The input is refused as a whole, never truncated."""

    status = 413
    code = "too_long"


class KeyRequired(ServiceError):
    """A missing key. LibreTranslate responds with 400 to a missing key, with 403 only to a wrong one."""

    status = 400
    code = "key_required"
    _MESSAGE = "api_key: this server requires an API key; send it as `Authorization: Bearer KEY` or as api_key"


class InvalidKey(ServiceError):
    status = 403
    code = "invalid_key"
    _MESSAGE = "Invalid API key"


class SuggestionsDisabled(ServiceError):
    """A suggestion for a server without a file of suggestions."""

    status = 403
    code = "suggestions_disabled"
    _MESSAGE = "Suggestions are disabled on this server: it needs --suggestions FILE"


class QueueFull(ServiceError):
    status = 429
    code = "queue_full"
    retry_after_seconds = 1


class _LimitReached(ServiceError):
    status = 429

    def __init__(self, problem: str, retry_after_seconds: int) -> None:
        super().__init__(problem)
        self.retry_after_seconds = retry_after_seconds


class RateLimited(_LimitReached):
    code = "rate_limited"


class QuotaExceeded(_LimitReached):
    code = "quota_exceeded"


class NotReady(ServiceError):
    status = 503
    code = "not_ready"
    retry_after_seconds = 2


class KeysUnavailable(ServiceError):
    """An unusable key file. Without it no usage can be counted, so the request is not translated."""

    status = 503
    code = "keys_unavailable"
    retry_after_seconds = 5
    _MESSAGE = "the server cannot read or write its API keys at the moment; retry later"


class EngineFailed(ServiceError):
    status = 500
    code = "engine_failed"


class RequestFailed(EngineFailed):
    """A failure of one request: an equal request would fail, too, and all others continue."""


class DeadlineExceeded(ServiceError):
    status = 504
    code = "deadline_exceeded"
