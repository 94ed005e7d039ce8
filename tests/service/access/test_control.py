"""Tests of access: callers, charges and refunds."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, closing, suppress
from pathlib import Path

import pytest
from starlette.requests import ClientDisconnect

from service.access.control import AccessControl, Refusal
from service.access.key_store import KeyLimits, KeyStore, Usage, this_month
from service.access.payments import Caller, Charge, Streamed
from service.access.stream_credits import RESUMPTIONS
from service.errors import (
    DeadlineExceeded,
    EngineFailed,
    InvalidKey,
    KeyRequired,
    QueueFull,
    QuotaExceeded,
    RateLimited,
    ServiceError,
    TooLong,
)
from service.settings import Settings
from tests.service.access.redis import needs_redis, run_redis

Open = Callable[..., Awaitable[AccessControl]]


@pytest.fixture
def refusals() -> list[Refusal]:
    return []


@pytest.fixture
async def opened(refusals: list[Refusal]) -> AsyncIterator[Open]:
    """Access control with these settings."""
    async with AsyncExitStack() as stack:

        async def open_access(**settings: object) -> AccessControl:
            access = AccessControl(Settings.model_validate(settings), refusals.append)
            return await stack.enter_async_context(aclosing(access))

        yield open_access


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.db"


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


@pytest.mark.parametrize(("error", "used"), [(RuntimeError("a bug"), 0), (ClientDisconnect(), 9)])
async def test_only_what_the_server_failed_is_given_back(opened: Open, error: Exception, used: int) -> None:
    access = await opened()
    caller = await access.admit(None, "192.0.2.1")
    with pytest.raises(type(error)):
        async with access.charged(caller, 9):
            raise error
    assert await access.characters_used(caller) == used


@pytest.mark.parametrize(("sent", "requests"), [(0, 0), (4, 1), (9, 1)])
async def test_of_what_a_deadline_ends_what_was_sent_is_paid(
    opened: Open, path: Path, sent: int, requests: int
) -> None:
    key = _key(path)
    access = await opened(keys=path)
    caller = await access.admit(key, None)

    async def ended_early() -> None:
        async with access.charged(caller, 9) as charge:
            charge.sent = lambda: sent
            raise DeadlineExceeded("too late")

    with pytest.raises(DeadlineExceeded):
        await ended_early()
    assert caller.key is not None
    with closing(KeyStore(path)) as file:
        assert file.usage(caller.key, this_month()) == Usage(requests, sent)


@pytest.fixture(params=["memory", pytest.param("redis", marks=needs_redis)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Settings that say where credits are."""
    if request.param == "memory":
        yield {}
        return
    with run_redis(tmp_path) as redis:
        yield {"redis_url": redis.url}


class Streaming:
    """Streams of nine characters, of one caller."""

    def __init__(self, access: AccessControl, caller: Caller) -> None:
        self.access = access
        self.caller = caller

    def charged(self, name: str = "text", *, resumes: bool = False) -> AbstractAsyncContextManager[Charge]:
        return self.access.charged_once(self.caller, 9, Streamed(name, 60.0, resumes))

    async def used(self) -> int:
        return await self.access.characters_used(self.caller)

    async def run(
        self, error: Exception | None = None, *, name: str = "text", resumes: bool = False, begins: bool = True
    ) -> int:
        """Return the characters used after a stream that ends so."""
        with suppress(ServiceError, ClientDisconnect):
            async with self.charged(name, resumes=resumes) as charge:
                if begins:
                    charge.sent = lambda: 5
                if error is not None:
                    raise error
        return await self.used()


LEFT = ClientDisconnect()


@pytest.fixture
async def streaming(opened: Open, path: Path, store: dict[str, str]) -> Streaming:
    key = _key(path, limits=KeyLimits(characters_per_month=1000))
    access = await opened(keys=path, **store)
    return Streaming(access, await access.admit(key, None))


async def test_a_stream_is_paid_once_however_often_it_is_resumed(streaming: Streaming) -> None:
    assert await streaming.run(LEFT, resumes=True) == 9  # nothing was paid yet
    assert [await streaming.run(LEFT, resumes=True) for _ in range(3)] == [9] * 3
    # However that ends, it has not been paid twice, and is resumed again.
    assert await streaming.run(EngineFailed("died"), resumes=True) == 9
    assert await streaming.run(resumes=True) == 9
    assert await streaming.run(name="other", resumes=True) == 18
    assert await streaming.run() == 27


async def test_what_resumes_a_stream_counts_for_no_limit_of_characters(opened: Open, path: Path) -> None:
    key = _key(path, limits=KeyLimits(characters_per_minute=10))
    access = await opened(keys=path)
    streaming = Streaming(access, await access.admit(key, None))
    assert [await streaming.run(LEFT, resumes=True) for _ in range(3)] == [9] * 3
    with pytest.raises(RateLimited):
        await streaming.charged().__aenter__()


async def test_what_was_given_back_is_paid_when_it_is_resumed(streaming: Streaming) -> None:
    assert await streaming.run(EngineFailed("died")) == 0
    assert await streaming.run(resumes=True) == 9


async def test_a_payment_that_a_resumption_has_used_is_not_given_back(streaming: Streaming) -> None:
    """Else the beginning with a short deadline would pay for nothing, and the rest be free."""
    with suppress(DeadlineExceeded):
        async with streaming.charged():
            async with streaming.charged(resumes=True) as resumed:
                resumed.sent = lambda: 9
            raise DeadlineExceeded("too late")
    assert await streaming.used() == 9


async def test_nor_while_the_resumption_still_runs(streaming: Streaming) -> None:
    async with AsyncExitStack() as stack:
        with suppress(DeadlineExceeded):
            async with streaming.charged() as charge:
                charge.sent = lambda: 2
                await stack.enter_async_context(streaming.charged(resumes=True))
                raise DeadlineExceeded("too late")
        assert await streaming.used() == 9


@pytest.mark.parametrize("error", [QueueFull("full"), DeadlineExceeded("too late")])
async def test_the_same_again_that_fails_leaves_what_was_paid(streaming: Streaming, error: ServiceError) -> None:
    assert await streaming.run(LEFT) == 9
    assert await streaming.run(error, begins=False) == 9
    assert [await streaming.run(LEFT, resumes=True) for _ in range(3)] == [9] * 3


async def test_a_resumption_that_does_not_begin_keeps_no_refund_back(streaming: Streaming) -> None:
    with suppress(EngineFailed):
        async with streaming.charged() as charge:
            charge.sent = lambda: 2
            assert await streaming.run(QueueFull("full"), resumes=True, begins=False) == 9
            raise EngineFailed("died")
    assert await streaming.used() == 0


@pytest.mark.parametrize("resumes", [False, True])
async def test_a_stream_that_has_ended_is_repeated_without_another_charge(streaming: Streaming, resumes: bool) -> None:
    if resumes:
        await streaming.run(LEFT)
    assert [await streaming.run(resumes=resumes)] + [await streaming.run(resumes=True) for _ in range(3)] == [9] * 4


async def test_one_payment_covers_so_many_resumptions_and_then_the_stream_is_paid_again(streaming: Streaming) -> None:
    """Ended or not, the same text takes the engines as much time with each."""
    assert await streaming.run() == 9
    assert [await streaming.run(resumes=True) for _ in range(RESUMPTIONS + 1)] == [9] * RESUMPTIONS + [18]
    assert [await streaming.run(LEFT, resumes=True) for _ in range(RESUMPTIONS + 1)] == [18] * RESUMPTIONS + [27]


async def test_who_leaves_a_stream_that_has_not_begun_pays_nothing(streaming: Streaming) -> None:
    """A stream that has sent no event cannot be resumed, and its client may have lost the server, not left."""
    assert await streaming.run(LEFT, begins=False) == 0
    assert await streaming.run(LEFT) == 9
    assert await streaming.run(LEFT, resumes=True, begins=False) == 9


async def test_a_settled_stream_is_not_refunded_whatever_then_happens(streaming: Streaming) -> None:
    for error in (ClientDisconnect(), EngineFailed("died"), DeadlineExceeded("too late")):
        before = await streaming.used()
        with suppress(ServiceError, ClientDisconnect):
            async with streaming.charged() as charge:
                charge.sent = lambda: 4
                await streaming.access.settle(charge)
                raise error
        assert await streaming.used() == before + 9


class Lost:
    """A server that is killed: nothing of what it began has come to an end."""

    def __init__(self, access: AccessControl) -> None:
        self.access = access
        self._stack = AsyncExitStack()

    async def begin(self, context: AbstractAsyncContextManager[Charge]) -> Charge:
        return await self._stack.enter_async_context(context)

    async def kill(self) -> None:
        """Free the server's number, and leave its charges as they are."""
        self._stack.pop_all()
        await self.access.aclose()


@pytest.fixture
async def killed(path: Path, store: dict[str, str]) -> tuple[Lost, str]:
    key = _key(path, limits=KeyLimits(characters_per_month=20, characters_per_minute=20))
    return Lost(AccessControl(Settings.model_validate({"keys": path, **store}))), key


async def _next(opened: Open, path: Path, store: dict[str, str], key: str) -> Streaming:
    access = await opened(keys=path, **store)
    await access.start()
    return Streaming(access, await access.admit(key, None))


async def test_what_runs_when_the_server_is_killed_costs_nothing_and_is_paid_once_when_it_is_resumed(
    opened: Open, path: Path, store: dict[str, str], killed: tuple[Lost, str]
) -> None:
    lost, key = killed
    first = Streaming(lost.access, await lost.access.admit(key, None))
    (await lost.begin(first.charged())).sent = lambda: 2
    await lost.begin(first.access.charged(first.caller, 9))
    assert await first.used() == 18
    await lost.kill()
    second = await _next(opened, path, store, key)
    assert await second.used() == 0
    async with second.access.charged(await second.access.admit(key, None), 2 if store else 12):
        pass
    # It is not refused, though it does not fit into the quota of the month or of the minute any more.
    assert await second.run(resumes=True) == (11 if store else 21)
    assert await second.run(resumes=True) == (11 if store else 21)


async def test_a_lost_stream_whose_resumption_is_refused_is_still_charged_again_with_the_next(
    opened: Open, path: Path, store: dict[str, str], killed: tuple[Lost, str]
) -> None:
    """Resumptions may be refused while the next server loads."""
    lost, key = killed
    first = Streaming(lost.access, await lost.access.admit(key, None))
    await lost.begin(first.charged())
    await lost.kill()
    second = await _next(opened, path, store, key)
    before = await second.used()
    assert [await second.run(QueueFull("full"), resumes=True, begins=False) for _ in range(3)] == [before] * 3
    assert [await second.run(resumes=True) for _ in range(2)] == [before + 9] * 2


async def test_a_lost_stream_that_nobody_resumes_costs_other_streams_nothing(
    opened: Open, path: Path, store: dict[str, str], killed: tuple[Lost, str]
) -> None:
    """A client that has received no event of its stream sends the request anew."""
    lost, key = killed
    first = Streaming(lost.access, await lost.access.admit(key, None))
    await lost.begin(first.charged("text-1"))
    assert await first.run(name="text-2") == 18
    await lost.kill()
    second = await _next(opened, path, store, key)
    assert await second.used() == 9
    assert await second.run(name="text-2", resumes=True) == 9


async def test_what_was_answered_before_the_server_was_killed_stays_paid_and_is_resumed(
    opened: Open, path: Path, store: dict[str, str], killed: tuple[Lost, str]
) -> None:
    lost, key = killed
    first = Streaming(lost.access, await lost.access.admit(key, None))
    charge = await lost.begin(first.charged())
    await first.access.settle(charge)
    await lost.kill()
    second = await _next(opened, path, store, key)
    assert await second.used() == 9
    assert [await second.run(resumes=True) for _ in range(2)] == [9, 9]


async def test_what_was_resumed_before_the_server_was_killed_is_paid_once(
    opened: Open, path: Path, store: dict[str, str], killed: tuple[Lost, str]
) -> None:
    """The first connection may be half-open, or closed: the payment is one."""
    lost, key = killed
    first = Streaming(lost.access, await lost.access.admit(key, None))
    await lost.begin(first.charged())
    (await lost.begin(first.charged(resumes=True))).sent = lambda: 2
    await lost.kill()
    second = await _next(opened, path, store, key)
    assert await second.run(resumes=True) == 9
    assert await second.run(LEFT, resumes=True) == 9


async def test_a_server_that_starts_beside_another_refunds_nothing_of_it(opened: Open, path: Path) -> None:
    key = _key(path)
    running = await _next(opened, path, {}, key)
    async with running.charged():
        beside = await _next(opened, path, {}, key)
        assert await beside.used() == 9
    assert await beside.run(resumes=True) == 9, "servers of one file share what was paid"


async def test_callers_without_a_key_are_charged_where_their_characters_are_limited(opened: Open, path: Path) -> None:
    key = _key(path)
    keyed, limited, free = await opened(keys=path), await opened(anonymous_characters_per_minute=9), await opened()
    assert keyed.is_charged(await keyed.admit(key, None))
    assert limited.is_charged(await limited.admit(None, "192.0.2.1"))
    assert not free.is_charged(await free.admit(None, "192.0.2.1"))


async def test_who_has_no_limit_of_characters_needs_no_credit(opened: Open) -> None:
    access = await opened()
    caller = await access.admit(None, "192.0.2.1")
    async with access.charged_once(caller, 9, Streamed("text", 60.0, resumes=False)):
        assert not access._counters.own.storage


async def test_what_has_no_key_is_counted_together(opened: Open) -> None:
    access = await opened()
    for address in ("192.0.2.1", "192.0.2.2"):
        caller = await access.admit(None, address)
        async with access.charged(caller, 5):
            pass
    assert await access.characters_used(caller) == 10


async def test_streams_are_limited_while_they_are_open(opened: Open, refusals: list[Refusal]) -> None:
    access = await opened(anonymous_streams=1)
    caller = await access.admit(None, "192.0.2.1")
    with access.stream(caller):
        with pytest.raises(RateLimited, match="too many streams: the limit is 1 at once"):
            access.stream(caller)
        access.stream(await access.admit(None, "192.0.2.2"))
    with access.stream(caller):
        pass
    assert refusals == ["streams"]


async def test_a_redis_that_is_not_there_is_a_problem(opened: Open) -> None:
    assert await (await opened()).problems() == []
    access = await opened(redis_url="redis://127.0.0.1:1/0")
    assert await access.problems() == ["redis_url: Redis does not answer"]
