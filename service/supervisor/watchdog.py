"""Detection of hung processes among those that have work and report nothing."""

import time
from typing import Final

import psutil

CHECK_SECONDS: Final = 1.0
_CHECKS: Final = 2
_STANDSTILL_SECONDS: Final = 4.0
_WOULD_WORK: Final = frozenset({psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP})
"""States of a process that waits for processor time, or for memory from the disk: no fault of its own."""


class Watchdog:
    """Regular checks of one silent engine, or of a process that is to fork one.

    A step, however long, takes processor time. A process that takes none was stopped, or waits for itself: this shows
    within seconds. A busy silent one has hung after `timeout_seconds`.
    """

    def __init__(self, pid: int, standstill_seconds: float | None = None, *, may_sleep: bool = False) -> None:
        """A process that may sleep stands still only while it is stopped."""
        self._pid = pid
        self._may_sleep = may_sleep
        self._standstill_seconds = _STANDSTILL_SECONDS if standstill_seconds is None else standstill_seconds
        self._used_seconds = -1.0  # the first check only records it
        self._moved_at = 0.0
        self._overdue = 0

    def is_hung(self, heard_at: float, timeout_seconds: float) -> bool:
        """Return True if the process, silent since `heard_at` on the monotonic clock, has hung."""
        now = time.monotonic()
        if self._works():
            self._moved_at = now
        stands_still = now - max(heard_at, self._moved_at) > self._standstill_seconds
        # One check is not enough: if this process was delayed, it has to read the reports first.
        self._overdue = self._overdue + 1 if stands_still or now - heard_at > timeout_seconds else 0
        return self._overdue >= _CHECKS

    def _works(self) -> bool:
        """Return True if the process has taken processor time since the last check, or waits for some."""
        try:
            process = psutil.Process(self._pid)
            times, state = process.cpu_times(), process.status()
        except psutil.Error:
            return False  # it has ended, which will be read
        except OSError:
            return True  # this process has no free descriptor: no fault of that one
        before, self._used_seconds = self._used_seconds, float(times.user + times.system)
        sleeps = self._may_sleep and state != psutil.STATUS_STOPPED
        return self._used_seconds != before or state in _WOULD_WORK or sleeps
