"""The number of a running server, by which servers that share a key file tell their open charges apart."""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from service.access.key_store import KeysError


class ServerNumber:
    """The lowest number that no other running server of a key file has: it locks `keys.db-server-NUMBER`.

    The system unlocks the file however the process ends, so the next server gets the number again.
    """

    def __init__(self, path: Path) -> None:
        """Raises `KeysError`."""
        self._path = path
        for number in count(1):
            descriptor = self._locked(number)
            if descriptor is not None:
                self.value, self._descriptor = number, descriptor
                return

    def close(self) -> None:
        os.close(self._descriptor)

    @contextmanager
    def ended(self, numbers: Iterable[int]) -> Iterator[list[int]]:
        """Yield those numbers whose servers have ended; no other server gets one of them inside of the context.

        This server's own number is one of them: the server that had it before has ended.
        """
        locked = {number: self._locked(number) for number in numbers if number != self.value}
        try:
            yield [self.value, *(number for number, descriptor in locked.items() if descriptor is not None)]
        finally:
            for descriptor in locked.values():
                if descriptor is not None:
                    os.close(descriptor)

    def _locked(self, number: int) -> int | None:
        """Return the descriptor of the file of a number; None if another server has locked it."""
        path = self._path.with_name(f"{self._path.name}-server-{number}")
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise KeysError(f"{path}: {(error.strerror or str(error)).lower()}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor
