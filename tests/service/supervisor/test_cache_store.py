"""Values within a limit, and the memory that they take."""

import random
import tracemalloc

import pytest

from service.supervisor.cache import CacheObserver, SegmentStore


def _key(number: int) -> bytes:
    return number.to_bytes(32, "big")


@pytest.fixture
def entry_bytes() -> int:
    store = SegmentStore(1_000_000, CacheObserver())
    store.put(_key(0), bytes(500))
    return store.size


def test_the_least_recently_used_is_evicted_first(entry_bytes: int) -> None:
    evictions: list[bool] = []
    sizes: list[int] = []
    store = SegmentStore(3 * entry_bytes, CacheObserver(evicted=lambda: evictions.append(True), resized=sizes.append))
    for number in range(3):
        store.put(_key(number), bytes(500))
    assert store.get(_key(0)) is not None
    store.put(_key(3), bytes(500))
    assert [store.get(_key(number)) is not None for number in range(4)] == [True, False, True, True]
    assert len(evictions) == 1
    assert sizes == [entry_bytes, 2 * entry_bytes, 3 * entry_bytes, 3 * entry_bytes]


def test_a_large_value_takes_the_room_of_several(entry_bytes: int) -> None:
    store = SegmentStore(3 * entry_bytes, CacheObserver())
    for number in range(3):
        store.put(_key(number), bytes(500))
    store.put(_key(3), bytes(500 + entry_bytes))
    assert len(store) == 2
    assert store.size == 3 * entry_bytes


def test_what_is_larger_than_the_limit_evicts_nothing(entry_bytes: int) -> None:
    store = SegmentStore(2 * entry_bytes, CacheObserver())
    store.put(_key(0), bytes(500))
    store.put(_key(1), bytes(3 * entry_bytes))
    assert (len(store), store.get(_key(1))) == (1, None)


def test_a_key_that_comes_again_counts_once(entry_bytes: int) -> None:
    store = SegmentStore(9 * entry_bytes, CacheObserver())
    store.put(_key(0), bytes(900))
    store.put(_key(0), bytes(500))
    assert (len(store), store.size) == (1, entry_bytes)
    assert store.get(_key(0)) == bytes(500)


def test_the_size_is_what_the_entries_take() -> None:
    """A size may be a little more: a limit that counted too little would be none."""
    generator = random.Random(0)
    tracemalloc.start()
    try:
        store = SegmentStore(100_000_000, CacheObserver())
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(30_000):
            store.put(generator.randbytes(32), generator.randbytes(generator.randrange(100, 1500)))
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken <= store.size <= 1.2 * taken
