"""A payment is good for some resumptions, of the same by the same, for a while."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from service.access.counters import Counters
from service.access.stream_credits import Receipts
from tests.service.access.redis import RedisServer, needs_redis, run_redis


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with run_redis(tmp_path) as running:
        yield running


@pytest.fixture(params=["memory", pytest.param("redis", marks=needs_redis)])
async def receipts(request: pytest.FixtureRequest) -> AsyncIterator[Receipts]:
    url = request.getfixturevalue("redis").url if request.param == "redis" else None
    async with aclosing(Counters(url)) as counters:
        yield Receipts(counters)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What time it is; to be changed."""
    now = [1_800_000_000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    return now


async def test_a_receipt_is_its_caller_s_for_its_request(receipts: Receipts) -> None:
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


async def _uses(receipts: Receipts) -> int:
    """How often it is still good, which it is not afterwards."""
    return [await receipts.use("a", "text") for _ in range(50)].index(False)


async def test_it_is_good_for_so_many_resumptions_and_as_many_more_when_it_is_paid_again(receipts: Receipts) -> None:
    for _ in range(2):
        await receipts.give("a", "text", 60.0)
        assert await _uses(receipts) == 20
    await receipts.give("a", "text", 60.0)
    await receipts.use("a", "text")
    await receipts.give("a", "text", 60.0)
    assert await _uses(receipts) == 39


async def test_what_is_paid_again_is_good_for_as_long_again(now: list[float]) -> None:
    receipts = Receipts(Counters(None))
    for _ in range(2):
        now[0] += 300.0
        await receipts.give("a", "text", 60.0)
    now[0] += 300.0
    assert await receipts.use("a", "text")


@needs_redis
async def test_so_it_is_in_redis_and_never_shorter(redis: RedisServer) -> None:
    async with aclosing(Counters(redis.url)) as counters:

        async def end() -> float:
            return await counters.use(lambda storage: storage.get_expiry("dragoman:paid/a/text"))

        ends = []
        for seconds in (60.0, 3600.0, 1.0):
            await Receipts(counters).give("a", "text", seconds)
            ends.append(await end())
    assert ends[1] - ends[0] > 3000
    assert ends[2] - ends[0] > 3000


async def test_it_is_taken_back(receipts: Receipts) -> None:
    assert not await receipts.take_back("a", "text")
    await receipts.give("a", "text", 60.0)
    assert await receipts.take_back("a", "text")
    assert not await receipts.use("a", "text")


async def test_one_that_was_used_is_not_taken_back(receipts: Receipts) -> None:
    """Of two payments one is enough for what was used."""
    await receipts.give("a", "text", 60.0)
    await receipts.use("a", "text")
    assert not await receipts.take_back("a", "text")
    await receipts.give("a", "text", 60.0)
    assert await receipts.take_back("a", "text")
    assert not await receipts.take_back("a", "text")
    assert await _uses(receipts) == 19


async def test_a_use_is_undone(receipts: Receipts) -> None:
    await receipts.give("a", "text", 60.0)
    await receipts.use("a", "text")
    await receipts.undo_use("a", "text")
    assert await receipts.take_back("a", "text")


async def test_behind_the_end_it_is_good_for_two_resumptions(receipts: Receipts) -> None:
    await receipts.give("a", "text", 60.0)
    for _ in range(2):
        await receipts.finish("a", "text")
    assert await _uses(receipts) == 2


async def test_the_end_of_one_payment_leaves_what_another_is_good_for(receipts: Receipts) -> None:
    for _ in range(2):
        await receipts.give("a", "text", 60.0)
    await receipts.finish("a", "text")
    assert await receipts.take_back("a", "text")
    assert await _uses(receipts) == 2


async def test_the_end_of_what_was_never_paid_gives_nothing(receipts: Receipts) -> None:
    await receipts.finish("a", "text")
    assert await _uses(receipts) == 0


@needs_redis
async def test_with_one_redis_it_is_good_on_every_server(redis: RedisServer) -> None:
    async with aclosing(Counters(redis.url)) as one, aclosing(Counters(redis.url)) as other:
        await Receipts(one).give("a", "text", 60.0)
        used = [await Receipts(each).use("a", "text") for each in (one, other) * 11]
        assert used == [True] * 20 + [False] * 2
        await Receipts(other).give("a", "text", 60.0)
        assert await Receipts(one).take_back("a", "text")
        assert not await Receipts(other).use("a", "text")


@needs_redis
async def test_with_one_redis_it_is_used_or_taken_back_never_both(redis: RedisServer) -> None:
    async with aclosing(Counters(redis.url)) as one, aclosing(Counters(redis.url)) as other:
        for _ in range(50):
            await Receipts(one).give("a", "text", 60.0)
            await _uses_at_once(Receipts(one), Receipts(other))
            assert await _uses(Receipts(one)) in (0, 20 - 1)


async def _uses_at_once(one: Receipts, other: Receipts) -> None:
    used, taken = await asyncio.gather(one.use("a", "text"), other.take_back("a", "text"))
    assert not (used and taken)
