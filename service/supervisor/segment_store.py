"""A bounded store of finished segments, by key. Knows nothing of their content."""

import sys
from collections import OrderedDict
from typing import Final

_ENTRY_BYTES: Final = 200
"""Memory of an entry beside its key and value: its place in the ordered dictionary, and the allocator's rounding."""


class CacheObserver:
    """The receiver of the cache's measurements; the methods of this base class do nothing."""

    def hit(self) -> None: ...

    def joined(self) -> None: ...

    def missed(self) -> None: ...

    def evicted(self) -> None: ...

    def resized(self, size: int) -> None: ...


class SegmentStore:
    """Values within `limit_bytes`, entries' own memory included; the least recently used are evicted first."""

    def __init__(self, limit_bytes: int, observer: CacheObserver) -> None:
        self.observer: Final = observer
        self._limit = limit_bytes
        self._values: OrderedDict[bytes, bytes] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._values)

    @property
    def size(self) -> int:
        """The memory of all entries in bytes."""
        return self._size

    def get(self, key: bytes) -> bytes | None:
        """Return the value, which is then the most recently used; None if there is none."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: bytes, value: bytes) -> None:
        """Store a value as the most recently used; a value that is larger than the limit is not stored."""
        if _size(key, value) > self._limit:
            return
        self._remove(key)
        self._values[key] = value
        self._size += _size(key, value)
        while self._size > self._limit:
            self._remove(next(iter(self._values)))
            self.observer.evicted()
        self.observer.resized(self._size)

    def _remove(self, key: bytes) -> None:
        if (value := self._values.pop(key, None)) is not None:
            self._size -= _size(key, value)


def _size(key: bytes, value: bytes) -> int:
    return sys.getsizeof(key) + sys.getsizeof(value) + _ENTRY_BYTES
