"""Limits of a minute: the requests that are let through, at once or after the returned wait."""

import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from service.access.rate_limits import RateLimiter
from service.settings import UnusableSettingError
from tests.service.access.redis import RedisServer, needs_redis, run_redis


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "time", clock)
    return clock


async def _used(rates: RateLimiter, caller: str, limit: int, cost: int = 1) -> int:
    """Count the accepted requests of twice as many attempts as the limit allows."""
    attempts = [await rates.count(caller, "requests", limit, cost) for _ in range(2 * limit // cost)]
    return attempts.count(None)


async def test_each_caller_has_its_own_minute(clock: Clock) -> None:
    rates = RateLimiter(None)
    assert await _used(rates, "a", 5) == 5
    assert await _used(rates, "b", 7) == 7
    assert await rates.count("a", "characters", 100, 100) is None
    assert await rates.count("a", "characters", 100, 1) is not None


@pytest.mark.parametrize("jump", [-400 * 86400.0, -7200.0, -30.0, 30.0, 7200.0])
async def test_a_clock_that_is_set_locks_nobody_out(clock: Clock, jump: float) -> None:
    """A caller at its limit waits two minutes at most, and a jump of the clock keeps no expired count."""
    rates = RateLimiter(None)
    assert await _used(rates, "a", 5) == 5
    clock.now += jump
    wait = await rates.count("a", "requests", 5, 5)
    if wait is not None:
        assert wait <= 120
        clock.now += wait
        assert await rates.count("a", "requests", 5, 5) is None
    before = set(rates.own.expirations)
    for number in range(10):
        clock.now += 60
        await rates.count(f"caller {number}", "requests", 5, 1)
    assert len(set(rates.own.expirations) - before) <= 4


@pytest.mark.parametrize("started", [0.0, 20.0, 59.0])
@pytest.mark.parametrize(("used", "cost"), [((5, 0), 5), ((5, 0), 1), ((0, 5), 2), ((3, 2), 3), ((4, 1), 1)])
async def test_who_waits_as_long_as_required_is_let_through(
    clock: Clock, started: float, used: tuple[int, int], cost: int
) -> None:
    """`used` are in the minute before, and in this one."""
    rates = RateLimiter(None)
    for amount in used:
        clock.now += started
        if amount:
            assert await rates.count("a", "requests", 5, amount) is None
        clock.now += 60.0 - started
    clock.now -= 60.0 - started
    waited = 0
    while (wait := await rates.count("a", "requests", 5, cost)) is not None:
        waited += 1
        assert 1 <= wait <= 120
        clock.now += wait
    assert waited <= 1


async def test_a_caller_is_sent_away_for_no_longer_than_needed(clock: Clock) -> None:
    """The returned seconds are the shortest wait after which a request is let through."""
    chance = random.Random(0)
    clock.now += 0.37  # what is weighed is no whole number then, which rounding could make more or less
    for caller in map(str, range(300)):
        rates = RateLimiter(None)
        limit = chance.choice([1, 2, 5, 60, 1000])
        for _ in range(chance.randint(1, 6)):
            clock.now += chance.choice([0.0, 1.0, 20.0, 59.0, 60.0])
            await rates.count(caller, "requests", limit, chance.choice([1, limit, chance.randint(1, limit)]))
        cost = chance.choice([1, limit, chance.randint(1, limit)])
        asked_at = clock.now
        wait = await rates.count(caller, "requests", limit, cost)
        if wait is not None:
            used = dict(rates.own.storage), dict(rates.own.expirations)
            for seconds in range(1, wait + 1):
                clock.now = asked_at + seconds
                # Counters that expire meanwhile are forgotten by a look at them.
                rates.own.storage, rates.own.expirations = Counter(used[0]), {**used[1]}
                let_through = await rates.count(caller, "requests", limit, cost) is None
                assert let_through == (seconds == wait), (limit, cost, seconds, wait)


async def test_single_requests_wait_for_a_minute_at_most(clock: Clock) -> None:
    for limit in (1, 2, 60):
        rates = RateLimiter(None)
        assert await rates.count("a", "requests", limit, limit) is None
        wait = await rates.count("a", "requests", limit, 1)
        assert wait is not None
        assert wait <= 61


async def test_callers_are_forgotten_after_a_while(clock: Clock) -> None:
    """Callers may have more addresses than there is memory."""
    rates = RateLimiter(None)
    for minute in range(4):
        for number in range(50):
            assert await rates.count(f"{minute} {number}", "requests", 1, 1) is None
            assert await rates.count(f"{minute} {number}", "requests", 1, 1) is not None
        clock.now += 60.0
    assert len(rates.own.storage) <= 3 * 50
    assert len(rates.own.expirations) == len(rates.own.storage)
    assert len(rates.own.locks) <= len(rates.own.storage)


def test_redis_without_its_client_is_reported_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("redis", "redis.asyncio"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UnusableSettingError, match=r"redis_url: .*\.\[redis\]"):
        RateLimiter("redis://127.0.0.1/0")


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with run_redis(tmp_path) as running:
        yield running


@needs_redis
async def test_servers_with_one_redis_count_together(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    # A busy machine may take longer, and then each counts for itself.
    monkeypatch.setattr("service.access.rate_limits._REDIS_SECONDS", 60.0)
    async with aclosing(RateLimiter(redis.url)) as one, aclosing(RateLimiter(redis.url)) as other:
        counted = await asyncio.gather(
            *(each.count("a", "requests", 30, 1) for each in (one, other) for _ in range(30))
        )
    assert counted.count(None) == 30
    assert all(wait is None or 1 <= wait <= 120 for wait in counted)


@needs_redis
async def test_without_an_answer_of_redis_each_server_counts_for_itself(
    redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with aclosing(RateLimiter(redis.url)) as rates:
        assert await _used(rates, "a", 3) == 3
        assert await rates.reachable()
        redis.freeze()
        assert not await rates.reachable()
        assert await _used(rates, "a", 3) == 3
    assert [record.message for record in caplog.records] == ["Redis does not answer: this server counts for itself"]
    redis.thaw()
