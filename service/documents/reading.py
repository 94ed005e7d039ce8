"""Messages between the server and a process that reads and writes one document, and their frames.

The process is sent an `Order`. For a count it answers `Counted`; for a translation it sends a `Batch`, and is sent the
translations, until it sends `Written`. Or it sends `Refused`, at any time.
"""

import struct
from typing import Final

import msgspec

from service.documents.limits import DocumentLimits
from service.documents.paragraph import Batch, ReadOptions
from service.documents.report import Report
from service.errors import InsufficientStorage, InvalidRequest, ServiceError, TooLong, UnsupportedFormat

HEADER: Final = struct.Struct("<I")
_ERRORS: Final[dict[str, type[InvalidRequest] | type[TooLong]]] = {
    each.__name__: each for each in (InvalidRequest, TooLong, UnsupportedFormat)
}


class Order(msgspec.Struct, frozen=True):
    """A document to read, and the file to write; without one it is only counted."""

    path: str
    name: str
    options: ReadOptions
    limits: DocumentLimits
    output: str | None = None


class Counted(msgspec.Struct, frozen=True, tag=True):
    characters: int
    sample: str
    """HTML from the beginning of the document, to detect its language."""


class Written(msgspec.Struct, frozen=True, tag=True):
    report: Report


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The name of an error's class, its field and its problem. An unknown class is a fault of ours."""

    error: str
    field: str = ""
    problem: str = ""

    @classmethod
    def because_of(cls, error: ServiceError) -> "Refused":
        field, _, problem = str(error).partition(": ")
        return cls(type(error).__name__, field, problem)

    def to_error(self) -> ServiceError:
        if self.error == InsufficientStorage.__name__:
            return InsufficientStorage("documents")
        found = _ERRORS.get(self.error)
        return ServiceError("internal error") if found is None else found(self.field, self.problem)


Answer = Counted | Batch | Written | Refused
encode: Final = msgspec.msgpack.Encoder().encode
decode_answer: Final = msgspec.msgpack.Decoder(Answer).decode
decode_order: Final = msgspec.msgpack.Decoder(Order).decode
decode_translations: Final = msgspec.msgpack.Decoder(list[str]).decode


def frame(message: object) -> bytes:
    content = encode(message)
    return HEADER.pack(len(content)) + content
