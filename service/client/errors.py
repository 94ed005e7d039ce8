"""What a client can be told."""


class ClientError(Exception):
    """All that can go wrong; `code` is stable and machine-readable, the message is for people.

    ClientError
    +-- Unreachable     no answer, or one that broke off, however often it was tried
    +-- NotDragoman     an answer that no Dragoman server gives
    +-- Refused         the server says no: `status`, or None if it said so in the middle of a stream
        +-- Busy        too many requests, starting, draining, no model: again after `retry_after_seconds`, if any
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
