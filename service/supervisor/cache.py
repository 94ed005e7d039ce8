"""The cache of finished segments: an equal request gets the same tokens again, without an engine.

Output is a function of the request, so nothing is approximate: a key stands for the model's content, how it is
executed, the token ids and every option that can change the result. Equal requests that are in flight at the same
moment share one decode. Knows neither texts nor callers.
"""

import hashlib
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from service.engine.generation_request import GenerationRequest, Sampling
from service.engine.messages import TokenReport, TokenRun, joined
from service.supervisor.generation import Generation

_GREEDY: Final = Sampling()
_ENTRY_BYTES: Final = 200
"""Memory of an entry beside its key and value: its place in the ordered dictionary, and the allocator's rounding."""


def _nobody(*_: object) -> None: ...


class CacheObserver(NamedTuple):
    """The receivers of the cache's measurements."""

    hit: Callable[[], None] = _nobody
    joined: Callable[[], None] = _nobody
    missed: Callable[[], None] = _nobody
    evicted: Callable[[], None] = _nobody
    resized: Callable[[int], None] = _nobody


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


class SegmentKey(NamedTuple):
    """The name of equal requests."""

    digest: bytes
    yields_to_new: bool
    """A request that must not wait for others does not join one that gives way to them; results are the same."""


class SegmentCache:
    """The finished segments of one model, in a store that all models share, and those that are being decoded."""

    def __init__(self, store: SegmentStore, variant: str) -> None:
        """`variant` tells the weights and their execution apart: content, mode, device and shortlist."""
        self._store = store
        self._variant = variant
        self._decodes: dict[SegmentKey, Generation] = {}
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(tuple[TokenRun | None, list[TokenReport]])

    def key(self, request: GenerationRequest, scope: str) -> SegmentKey:
        """Hash everything that the result depends on; fields of the request that are added later count, too."""
        search = request.search
        if search.sampling.temperature == 0:
            search = msgspec.structs.replace(search, sampling=_GREEDY)  # no seed, no restriction to the best
        decisive = msgspec.structs.replace(request, search=search, yields_to_new=False, draft=[])
        digest = hashlib.sha256(self._encoder.encode((self._variant, scope, decisive))).digest()
        return SegmentKey(digest, request.yields_to_new)

    def find(self, key: SegmentKey, request: GenerationRequest) -> Generation | None:
        """Return the generation of an equal request, finished or in flight; None if there is none."""
        if (kept := self._store.get(key.digest)) is not None:
            self._store.observer.hit()
            return self._replay(request, kept)
        generation = self._decodes.get(key)
        if generation is None:
            self._store.observer.missed()
        else:
            self._store.observer.joined()
        return generation

    def add(self, key: SegmentKey, generation: Generation) -> None:
        """Have later equal requests find a generation until it ends."""
        self._decodes[key] = generation

    def end(self, key: SegmentKey, ended: Generation) -> None:
        """Keep a generation if it is finished; nobody joins it any more."""
        if self._decodes.get(key) is ended:
            del self._decodes[key]
        if ended.finished:
            runs = [report for report in ended.reports if isinstance(report, TokenRun)]
            kept = (joined(runs), ()) if len(runs) == len(ended.reports) else (None, ended.tokens)
            self._store.put(key.digest, self._encoder.encode(kept))

    def forget_decodes(self) -> None:
        """Have nobody join the present decodes."""
        self._decodes.clear()

    def _replay(self, request: GenerationRequest, kept: bytes) -> Generation:
        """Return a generation that has finished."""
        replayed = Generation(request)
        replayed.admitted_at = replayed.submitted_at
        run, tokens = self._decoder.decode(kept)
        for report in tokens if run is None else (run,):
            replayed.deliver(report)
        return replayed
