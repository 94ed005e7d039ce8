"""Tests of access: callers, limits and quotas."""

from contextlib import closing
from pathlib import Path

import pytest

from service.access.control import Refusal
from service.access.key_store import KeyLimits, KeyStore
from service.errors import (
    InvalidKey,
    KeyRequired,
    QueueFull,
    QuotaExceeded,
    RateLimited,
    TooLong,
)
from tests.service.access.conftest import Open


def _key(path: Path, name: str = "kiosk", limits: KeyLimits | None = None) -> str:
    with closing(KeyStore(path, create=True)) as file:
        return file.add(name, limits or KeyLimits())


async def test_without_keys_everybody_is_let_in_and_a_key_is_no_matter(opened: Open) -> None:
    access = await opened()
    caller = await access.admit("anything", "192.0.2.1")
    assert (caller.key, caller.limits) == (None, KeyLimits())
    assert not access.has_keys
    assert not access.key_required


async def test_with_keys_only_they_are_let_in(opened: Open, path: Path, refusals: list[Refusal]) -> None:
    key = _key(path, limits=KeyLimits(streams=3))
    access = await opened(keys=path)
    caller = await access.admit(key, "192.0.2.1")
    assert caller.key is not None
    assert caller.key.name == "kiosk"
    assert caller.limits == KeyLimits(streams=3)
    assert key not in repr(caller)
    for none in (None, ""):
        with pytest.raises(KeyRequired):
            await access.admit(none, "192.0.2.1")
    with pytest.raises(InvalidKey):
        await access.admit(key + "x", "192.0.2.1")
    assert refusals == ["key_required", "key_required", "invalid_key"]


async def test_anonymous_callers_are_let_in_if_the_settings_say_so(opened: Open, path: Path) -> None:
    _key(path)
    access = await opened(keys=path, anonymous=True, anonymous_streams=2)
    assert not access.key_required
    assert (await access.admit(None, "192.0.2.1")).limits == KeyLimits(streams=2)
    with pytest.raises(InvalidKey):
        await access.admit("wrong", "192.0.2.1")


async def test_wrong_keys_of_an_address_are_limited_and_right_ones_are_not(
    opened: Open, path: Path, refusals: list[Refusal]
) -> None:
    """Many callers may have one address, behind a proxy or in an office: one of them must not lock the others out."""
    key = _key(path)
    access = await opened(keys=path)
    for _ in range(30):
        with pytest.raises(InvalidKey):
            await access.admit("wrong", "192.0.2.1")
    for wrong in ("wrong", "dragoman-other"):
        with pytest.raises(RateLimited, match="too many wrong API keys from this address: the limit is 30") as limited:
            await access.admit(wrong, "192.0.2.1")
        assert 1 <= (limited.value.retry_after_seconds or 0) <= 120
    assert refusals == ["invalid_key"] * 30 + ["wrong_keys"] * 2
    await access.admit(key, "192.0.2.1")
    with pytest.raises(InvalidKey):
        await access.admit("wrong", "192.0.2.2")


async def test_a_key_is_known_without_counting_a_request(opened: Open, path: Path) -> None:
    key = _key(path, limits=KeyLimits(requests_per_minute=1))
    access = await opened(keys=path)
    assert [await access.knows(each, "192.0.2.1") for each in (key, key, None, "", "wrong")] == [True, True] + [
        False
    ] * 3
    await access.admit(key, "192.0.2.1")
    for _ in range(29):
        await access.knows("wrong", "192.0.2.1")
    with pytest.raises(RateLimited):
        await access.knows("wrong", "192.0.2.1")
    assert not await (await opened()).knows(key, "192.0.2.1")


async def test_a_key_that_is_removed_or_added_counts_at_once(opened: Open, path: Path) -> None:
    key = _key(path)
    access = await opened(keys=path)
    await access.admit(key, None)
    with closing(KeyStore(path)) as file:
        file.remove("kiosk")
        other = file.add("office", KeyLimits())
    with pytest.raises(InvalidKey):
        await access.admit(key, None)
    await access.admit(other, None)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        (None, None, True),
        ("unknown", "_hidden", False),
    ],
)
async def test_whose_limit_an_address_shares(opened: Open, first: str | None, second: str | None, same: bool) -> None:
    access = await opened(anonymous_requests_per_minute=1)
    await access.admit(None, first)
    if same:
        with pytest.raises(RateLimited):
            await access.admit(None, second)
    else:
        await access.admit(None, second)


async def test_limits_of_a_minute_are_a_key_s_own(opened: Open, path: Path, refusals: list[Refusal]) -> None:
    key = _key(path, limits=KeyLimits(requests_per_minute=2, characters_per_minute=10))
    other = _key(path, "office")
    access = await opened(keys=path)
    callers = [await access.admit(key, "192.0.2.1") for _ in range(2)]
    with pytest.raises(RateLimited, match="too many requests: the limit is 2 a minute") as caught:
        await access.admit(key, "192.0.2.2")
    assert caught.value.retry_after_seconds is not None
    assert 1 <= caught.value.retry_after_seconds <= 120
    office = await access.admit(other, "192.0.2.1")
    async with access.charged(office, 1000), access.charged(callers[0], 8):
        pass
    with pytest.raises(RateLimited, match="too many characters: the limit is 10 a minute"):
        await access.charged(callers[1], 3).__aenter__()
    with pytest.raises(TooLong, match="11 characters, the limit is 10 a minute"):
        await access.charged(callers[1], 11).__aenter__()
    with pytest.raises(TooLong, match=r"^text: "):
        await access.charged(callers[1], 11, "text").__aenter__()
    assert refusals == ["requests", "characters", "characters", "characters"]


async def test_a_quota_is_charged_for_what_is_translated(opened: Open, path: Path, refusals: list[Refusal]) -> None:
    key = _key(path, limits=KeyLimits(characters_per_month=10))
    access = await opened(keys=path)
    caller = await access.admit(key, None)

    async def refused_later() -> None:
        async with access.charged(caller, 9):
            assert await access.characters_used(caller) == 9
            raise QueueFull("full")

    with pytest.raises(QueueFull):
        await refused_later()
    assert await access.characters_used(caller) == 0
    async with access.charged(caller, 8):
        pass
    with pytest.raises(QuotaExceeded, match="the limit is 10 characters a month") as caught:
        await access.charged(caller, 3).__aenter__()
    assert caught.value.retry_after_seconds is not None
    assert 0 < caught.value.retry_after_seconds <= 31 * 24 * 3600
    assert await access.characters_used(caller) == 8
    assert refusals == ["quota"]


async def test_what_has_no_key_is_counted_together(opened: Open) -> None:
    access = await opened()
    for address in ("192.0.2.1", "192.0.2.2"):
        caller = await access.admit(None, address)
        async with access.charged(caller, 5):
            pass
    assert await access.characters_used(caller) == 10


async def test_streams_are_limited_while_they_are_open(opened: Open, refusals: list[Refusal]) -> None:
    access = await opened(anonymous_streams=2)
    caller = await access.admit(None, "192.0.2.1")
    with access.stream(caller):
        with access.stream(caller):
            with (
                pytest.raises(RateLimited, match="too many streams: the limit is 2 at once"),
                access.stream(caller),
            ):
                pass
            with access.stream(await access.admit(None, "192.0.2.2")):
                pass
        with access.stream(caller):
            pass
    assert refusals == ["streams"]


async def test_a_redis_that_is_not_there_is_a_problem(opened: Open) -> None:
    assert await (await opened()).problems() == []
    access = await opened(redis_url="redis://127.0.0.1:1/0")
    assert await access.problems() == ["redis_url: Redis does not answer"]
