"""A payment allows resumptions of the same request by the same caller, for a while."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from service.access.counters import Counters
from service.access.stream_credits import RESUMPTIONS, StreamCredits
from tests.service.access.redis import RedisServer, needs_redis, run_redis


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with run_redis(tmp_path) as running:
        yield running


@pytest.fixture(params=["memory", pytest.param("redis", marks=needs_redis)])
async def credits(request: pytest.FixtureRequest) -> AsyncIterator[StreamCredits]:
    url = request.getfixturevalue("redis").url if request.param == "redis" else None
    async with aclosing(Counters(url)) as counters:
        yield StreamCredits(counters)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which a test may change."""
    now = [1_800_000_000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    return now


async def test_a_credit_is_its_caller_s_for_its_request(credits: StreamCredits) -> None:
    await credits.add("a", "text", 60.0)
    assert await credits.use("a", "text")
    assert not await credits.use("b", "text")
    assert not await credits.use("a", "other text")


async def test_it_is_good_for_some_time_after_the_deadline(now: list[float]) -> None:
    credits = StreamCredits(Counters(None))
    await credits.add("a", "text", 120.0)
    now[0] += 400.0
    assert await credits.use("a", "text")
    now[0] += 30.0
    assert not await credits.use("a", "text")


async def test_it_is_good_for_a_bounded_number_of_resumptions(credits: StreamCredits) -> None:
    await credits.add("a", "text", 60.0)
    assert all([await credits.use("a", "text") for _ in range(RESUMPTIONS)])
    assert not await credits.use("a", "text")
    await credits.undo_use("a", "text")
    assert [await credits.use("a", "text") for _ in range(2)] == [True, False]
    await credits.add("a", "text", 60.0)
    assert all([await credits.use("a", "text") for _ in range(RESUMPTIONS)])
    assert not await credits.use("a", "text")
    assert not await credits.withdraw("a", "text"), "both payments were needed"


async def test_what_is_paid_again_is_good_for_as_long_again(now: list[float]) -> None:
    credits = StreamCredits(Counters(None))
    for _ in range(2):
        now[0] += 300.0
        await credits.add("a", "text", 60.0)
    now[0] += 300.0
    assert await credits.use("a", "text")


@needs_redis
async def test_so_it_is_in_redis_and_never_shorter(redis: RedisServer) -> None:
    async with aclosing(Counters(redis.url)) as counters:

        async def end() -> float:
            return await counters.use(lambda storage: storage.get_expiry("dragoman:paid/a/text"))

        ends = []
        for seconds in (60.0, 3600.0, 1.0):
            await StreamCredits(counters).add("a", "text", seconds)
            ends.append(await end())
    assert ends[1] - ends[0] > 3000
    assert ends[2] - ends[0] > 3000


async def test_it_is_withdrawn(credits: StreamCredits) -> None:
    assert not await credits.withdraw("a", "text")
    await credits.add("a", "text", 60.0)
    assert await credits.withdraw("a", "text")
    assert not await credits.use("a", "text")


async def test_a_payment_that_was_used_is_not_withdrawn(credits: StreamCredits) -> None:
    """One of two payments is enough for what was used."""
    await credits.add("a", "text", 60.0)
    await credits.use("a", "text")
    assert not await credits.withdraw("a", "text")
    await credits.add("a", "text", 60.0)
    assert await credits.withdraw("a", "text")
    assert not await credits.withdraw("a", "text")
    assert await credits.use("a", "text")


async def test_a_payment_is_withdrawn_once(credits: StreamCredits) -> None:
    await credits.add("a", "text", 60.0)
    assert sorted(await asyncio.gather(*(credits.withdraw("a", "text") for _ in range(4)))) == [False] * 3 + [True]


async def test_a_use_is_undone(credits: StreamCredits) -> None:
    await credits.add("a", "text", 60.0)
    await credits.use("a", "text")
    await credits.undo_use("a", "text")
    assert await credits.withdraw("a", "text")
    assert not await credits.use("a", "text")


@needs_redis
async def test_with_one_redis_it_is_good_on_every_server(redis: RedisServer) -> None:
    async with aclosing(Counters(redis.url)) as one, aclosing(Counters(redis.url)) as other:
        await StreamCredits(one).add("a", "text", 60.0)
        assert all([await StreamCredits(each).use("a", "text") for each in (one, other)])
        await StreamCredits(other).add("a", "text", 60.0)
        assert await StreamCredits(one).withdraw("a", "text")
        assert not await StreamCredits(other).withdraw("a", "text")


@needs_redis
async def test_with_one_redis_it_is_used_or_withdrawn_never_both(redis: RedisServer) -> None:
    async with aclosing(Counters(redis.url)) as one, aclosing(Counters(redis.url)) as other:
        for number in range(50):
            await StreamCredits(one).add("a", str(number), 60.0)
            await _use_and_withdraw(StreamCredits(one), StreamCredits(other), str(number))


async def _use_and_withdraw(one: StreamCredits, other: StreamCredits, request: str) -> None:
    used, withdrawn = await asyncio.gather(one.use("a", request), other.withdraw("a", request))
    assert not (used and withdrawn)
