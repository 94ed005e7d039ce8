"""A payment is good for some resumptions, of the same by the same, for a while."""

from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from service.access.counters import Counters
from service.access.receipts import Receipts
from tests.service.access.redis import RedisServer, needs_redis, run_redis


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What time it is; to be changed."""
    now = [1_800_000_000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    return now


async def test_a_receipt_is_its_caller_s_for_its_request() -> None:
    receipts = Receipts(Counters(None))
    await receipts.give("a", "text", 60.0)
    assert await receipts.use("a", "text")
    assert not await receipts.use("b", "text")
    assert not await receipts.use("a", "other text")


async def test_it_is_good_for_some_time_behind_the_deadline(now: list[float]) -> None:
    receipts = Receipts(Counters(None))
    await receipts.give("a", "text", 120.0)
    now[0] += 400.0
    assert await receipts.use("a", "text")
    now[0] += 30.0
    assert not await receipts.use("a", "text")


async def test_it_is_good_for_so_many_resumptions_and_anew_when_it_is_paid_again() -> None:
    receipts = Receipts(Counters(None))
    for _ in range(2):
        await receipts.give("a", "text", 60.0)
        assert [await receipts.use("a", "text") for _ in range(25)] == [True] * 20 + [False] * 5


async def test_what_is_paid_again_is_good_for_as_long_again(now: list[float]) -> None:
    receipts = Receipts(Counters(None))
    for _ in range(2):
        now[0] += 300.0
        await receipts.give("a", "text", 60.0)
    now[0] += 300.0
    assert await receipts.use("a", "text")


async def test_it_is_taken_back() -> None:
    receipts = Receipts(Counters(None))
    await receipts.give("a", "text", 60.0)
    await receipts.take_back("a", "text")
    assert not await receipts.use("a", "text")


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with run_redis(tmp_path) as running:
        yield running


@needs_redis
async def test_with_one_redis_it_is_good_on_every_server(redis: RedisServer) -> None:
    async with aclosing(Counters(redis.url)) as one, aclosing(Counters(redis.url)) as other:
        await Receipts(one).give("a", "text", 60.0)
        used = [await Receipts(each).use("a", "text") for each in (one, other) * 11]
        assert used == [True] * 20 + [False] * 2
        await Receipts(other).give("a", "text", 60.0)
        await Receipts(one).take_back("a", "text")
        assert not await Receipts(other).use("a", "text")
