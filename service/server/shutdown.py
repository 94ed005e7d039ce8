"""The end of the process after SIGTERM, whatever hangs: a thread, an import, an engine, the event loop, or the log.

A process that does not end keeps its port and its memory, and its supervisor cannot start another one.
"""

import faulthandler
import logging
import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from types import FrameType
from typing import Final, NoReturn

import psutil

logger = logging.getLogger(__name__)

GRACE_SECONDS: Final = 8.0
"""Time that a shutdown has after its drain, usually far more than it takes."""
_LAST_SECONDS: Final = 1.5
"""Time after which C code ends the process, if Python can run no code: something holds its lock."""
_LOG_SECONDS: Final = 0.5
_FORCED: Final = 1
_SIGNALLED: Final = 128  # plus the signal's number, as shells have it


class ShutdownDeadline:
    """Ends the process, its engines and its imports if its shutdown takes too long.

    Its thread waits from the beginning: in a process that is in trouble, a new one may never run.
    """

    def __init__(self) -> None:
        self._processes: Callable[[], Iterable[int]] = tuple
        self._nowhere = os.open(os.devnull, os.O_WRONLY)
        self._ends: SimpleQueue[float] = SimpleQueue()
        Thread(target=self._wait, name="shutdown deadline", daemon=True).start()

    def also_end(self, processes: Callable[[], Iterable[int]]) -> None:
        """Name processes that must not stay behind either: descendants whose parent has died."""
        self._processes = processes

    def start(self, drain_seconds: float = 0.0) -> None:
        """Set the deadline `drain_seconds` and some more from now. Safe in signal handlers, as `SimpleQueue.put` is."""
        seconds = drain_seconds + GRACE_SECONDS
        # To nowhere: standard error may be what hangs.
        faulthandler.dump_traceback_later(seconds + _LAST_SECONDS, exit=True, file=self._nowhere)
        self._ends.put(time.monotonic() + seconds)

    def _wait(self) -> None:
        ends_at = self._ends.get()
        with suppress(Empty):
            while True:
                ends_at = self._ends.get(timeout=max(0.0, ends_at - time.monotonic()))
        self._end()

    def _end(self) -> NoReturn:
        with suppress(psutil.Error):
            descendants = [each.pid for each in psutil.Process().children(recursive=True)]
            for pid in {*descendants, *self._processes()}:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        # In a thread: whoever reads the log may have stopped.
        note = Thread(target=_explain, daemon=True)
        note.start()
        note.join(_LOG_SECONDS)
        os._exit(_FORCED)


def _explain() -> None:
    logger.error("the shutdown takes too long, the process is ended; what hangs is among these threads")
    faulthandler.dump_traceback(all_threads=True)


def end_at_sigterm(deadline: ShutdownDeadline) -> None:
    """Let SIGTERM end a server that is still starting, after it has tidied up; by default nothing is tidied up.

    Once it has started, uvicorn's own handler takes this one's place.
    """

    def end(number: int, _: FrameType | None) -> NoReturn:
        deadline.start()
        # An import whose `Popen` has not returned yet is known to nobody else.
        for child in psutil.Process().children():
            child.kill()
        raise SystemExit(_SIGNALLED + number)

    signal.signal(signal.SIGTERM, end)
