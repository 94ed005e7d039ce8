"""The errors that a client raises."""


class ClientError(Exception):
    """Base of all errors; `code` is stable and machine-readable, the message is written for people.

    ClientError
    +-- Unreachable     no response, or a broken one, after all retries; or a wrong URL
    +-- NotDragoman     a response of another program
    +-- Refused         the server returns an error: `status`, or None for an error in the middle of a stream
        +-- Busy        too many requests, starting, draining, no model: retry after `retry_after_seconds`, if set
    """

    code = "client_error"


class Unreachable(ClientError):
    code = "unreachable"


class NotDragoman(ClientError):
    code = "not_dragoman"


class Refused(ClientError):
    def __init__(self, message: str, code: str, status: int | None, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.retry_after_seconds = retry_after_seconds


class Busy(Refused):
    pass
