"""The process that reads and writes one document: within limits of processor time and memory, it may be killed."""

import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from service.documents.document import open_document
from service.documents.paragraph import advance
from service.documents.reading import (
    HEADER,
    Answer,
    Counted,
    Order,
    Refused,
    Written,
    decode_order,
    decode_translations,
    frame,
)
from service.errors import InsufficientStorage, InvalidRequest, ServiceError, TooLong
from service.process.resource_limits import limit_resource


def main() -> None:
    """Carry out one order from standard input; answers go to standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the server ends this process
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    order = decode_order(_read(source))
    limit_resource(resource.RLIMIT_CPU, order.limits.max_processor_seconds)
    limit_resource(resource.RLIMIT_DATA, order.limits.max_memory_bytes)
    limit_resource(resource.RLIMIT_CORE, 0)  # it would hold the document
    tempfile.tempdir = str(Path(order.path).parent)
    for answer in _answers(order, source):
        sink.write(frame(answer))
        sink.flush()


def _answers(order: Order, source: BinaryIO) -> Iterator[Answer]:
    try:
        document = open_document(Path(order.path), order.name, order.options, order.limits)
        if order.output is None:
            count = document.count()
            yield Counted(count.characters, count.sample)
            return
        rewriting, translations = document.rewrite(Path(order.output)), None
        while (batch := advance(rewriting, translations)) is not None:
            yield batch
            translations = decode_translations(_read(source))
        yield Written(document.report)
    except ServiceError as error:
        yield Refused.because_of(error)
    except MemoryError as error:
        error.__traceback__ = None  # its frames hold the memory that an answer needs
        yield Refused(TooLong.__name__, "file", f"it needs more than {order.limits.max_memory_bytes} bytes of memory")
    except RecursionError:
        yield Refused(InvalidRequest.__name__, "file", "it is nested too deep")
    except OSError:
        yield Refused(InsufficientStorage.__name__)
    except Exception as error:
        # Only where it happened: the message may have a text of the document.
        place = traceback.extract_tb(error.__traceback__)[-1]
        print(f"{type(error).__name__} in {place.filename}, line {place.lineno}", file=sys.stderr)
        yield Refused("")


def _read(source: BinaryIO) -> bytes:
    """Read a message; end the process if the server has ended."""
    header = source.read(HEADER.size)
    if len(header) < HEADER.size:
        sys.exit(1)
    return source.read(HEADER.unpack(header)[0])


if __name__ == "__main__":
    main()
