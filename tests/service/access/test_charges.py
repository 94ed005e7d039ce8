"""What a translation costs, however it ends; and which resumptions are free."""

import asyncio
import shutil
import sqlite3
import string
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from service.access.async_key_store import this_month
from service.access.charges import Caller, Streamed, StreamSigner
from service.access.control import AccessControl
from service.access.key_store import KeyLimits, KeyStore
from service.errors import (
    CallerLeft,
    DeadlineExceeded,
    EngineFailed,
    NotReady,
    QueueFull,
    RateLimited,
)
from tests.panics import PanicException
from tests.service.access.conftest import Open

CHARACTERS = 9
KIOSK = Caller("key:kiosk", KeyLimits())
STREAM = Streamed("text", 60.0)
UNSIGNED = Streamed()


@pytest.fixture
def key(path: Path) -> str:
    with closing(KeyStore(path, create=True)) as file:
        return file.add("kiosk", KeyLimits(characters_per_month=1000))


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which a test may change."""
    now = [1_800_000_000.0]
    monkeypatch.setattr("service.access.charges._now", lambda: now[0])
    return now


class Keyed(NamedTuple):
    """A server's access, and a caller with a key."""

    access: AccessControl
    caller: Caller
    path: Path

    def usage(self) -> int:
        assert self.caller.key is not None
        with closing(KeyStore(self.path)) as file:
            return file.usage(self.caller.key, this_month())

    async def resume(self, signature: str, name: str = "text") -> tuple[int, str]:
        """Return what a resumption costs, and the signature that its events have."""
        return await _resume(self.access, self.caller, signature, name)


@pytest.fixture
async def keyed(opened: Open, path: Path, key: str) -> Keyed:
    access = await opened(keys=path)
    return Keyed(access, await access.admit(key, None), path)


@pytest.mark.parametrize(
    ("error", "paid"),
    [
        (EngineFailed("died"), False),
        (RuntimeError("a bug"), False),
        (PanicException("a bug"), False),
        (DeadlineExceeded("too late"), False),
        (NotReady("draining"), False),
        (CallerLeft(), True),
        (asyncio.CancelledError(), True),
    ],
)
async def test_an_answer_that_the_server_failed_costs_nothing(keyed: Keyed, error: BaseException, paid: bool) -> None:
    access = keyed.access

    async def fail(caller: Caller) -> None:
        async with access.charged(caller, CHARACTERS):
            assert await access.characters_used(caller) == CHARACTERS
            raise error

    for caller in (keyed.caller, Caller("address:192.0.2.1", KeyLimits())):
        with pytest.raises(type(error)):
            await fail(caller)
        assert await access.characters_used(caller) == (CHARACTERS if paid else 0)
    assert keyed.usage() == (CHARACTERS if paid else 0)


@pytest.mark.parametrize(
    ("error", "sent", "unsigned", "signed"),
    [
        (EngineFailed("died"), None, 0, 0),
        (EngineFailed("died"), 4, 0, 0),
        (PanicException("a bug"), 4, 0, 0),
        # The beginning is paid, where the rest cannot be had for it.
        (DeadlineExceeded("too late"), None, 0, 0),
        (DeadlineExceeded("too late"), 0, 0, CHARACTERS),
        (DeadlineExceeded("too late"), 4, 4, CHARACTERS),
        # The client goes on with the next server, for nothing if the ids are signed.
        (NotReady("draining"), None, 0, 0),
        (NotReady("draining"), 4, 0, CHARACTERS),
        (QueueFull("full"), 0, 0, CHARACTERS),
        # Without an event nobody can resume, and the client may have lost the server, not left.
        (CallerLeft(), None, 0, 0),
        (CallerLeft(), 0, CHARACTERS, CHARACTERS),
    ],
)
async def test_a_stream_costs_what_its_caller_has_or_can_resume(
    keyed: Keyed, error: BaseException, sent: int | None, unsigned: int, signed: int
) -> None:
    for stream, paid in ((UNSIGNED, unsigned), (STREAM, signed)):
        before = keyed.usage()
        async with keyed.access.charged(keyed.caller, CHARACTERS, stream=stream) as charge:
            for each in (error, EngineFailed("died"), CallerLeft()):
                await charge.end(each, sent)
                assert keyed.usage() == before + paid


async def test_what_is_given_back_is_given_back_once(keyed: Keyed) -> None:
    access, caller = keyed.access, keyed.caller
    async with access.charged(caller, CHARACTERS), access.charged(caller, CHARACTERS, stream=STREAM) as charge:
        await asyncio.gather(*(charge.give_back() for _ in range(3)), charge.end(EngineFailed("died"), 4))
    assert keyed.usage() == CHARACTERS


async def _resume(access: AccessControl, caller: Caller, signature: str, name: str = "text") -> tuple[int, str]:
    before = await access.characters_used(caller)
    async with access.charged(caller, CHARACTERS, stream=Streamed(name, 60.0, signature)) as charge:
        return await access.characters_used(caller) - before, charge.signature


async def test_a_resumption_with_the_signature_is_free_and_keeps_it(keyed: Keyed) -> None:
    first, signature = await keyed.resume("")
    assert (first, len(signature)) == (CHARACTERS, 24)
    assert [await keyed.resume(signature) for _ in range(30)] == [(0, signature)] * 30
    async with keyed.access.charged(keyed.caller, CHARACTERS, stream=Streamed("text", 60.0, signature)) as charge:
        await charge.end(EngineFailed("died"), 4)
    assert keyed.usage() == CHARACTERS, "what cost nothing is not given back"


async def test_it_expires_five_minutes_after_the_deadline_however_often_it_is_used(
    keyed: Keyed, now: list[float]
) -> None:
    _, signature = await keyed.resume("")
    for _ in range(2):
        now[0] += 180
        assert await keyed.resume(signature) == (0, signature)
    now[0] += 2
    cost, new = await keyed.resume(signature)
    assert cost == CHARACTERS
    assert await keyed.resume(new) == (0, new)


async def test_a_signature_of_something_else_is_charged_as_a_new_stream(keyed: Keyed) -> None:
    """A browser gives up for good if it is refused."""
    with closing(KeyStore(keyed.path)) as file:
        other = await keyed.access.admit(file.add("office", KeyLimits()), None)
    _, signature = await keyed.resume("")
    assert (await _resume(keyed.access, other, signature))[0] == CHARACTERS, "another caller's"
    assert (await keyed.resume(signature, "other text"))[0] == CHARACTERS, "another request's"
    forged = signature[:8] + signature[8:][::-1]
    for wrong in (forged, "5f0c9a1e", "A" * 24, "_" * 24, signature[:-1], "x"):
        cost, new = await keyed.resume(wrong)
        assert cost == CHARACTERS, wrong
        assert await keyed.resume(new) == (0, new)


def test_no_single_character_of_a_signature_can_be_changed() -> None:
    signer = StreamSigner(b"secret")
    signature = signer.sign(KIOSK, STREAM)
    alphabet = string.ascii_letters + string.digits + "-_"
    accepted = [
        changed
        for place in range(len(signature))
        for character in alphabet
        if signer.accepts(KIOSK, STREAM._replace(signature=(changed := _with(signature, place, character))))
    ]
    assert set(accepted) == {signature}


def _with(text: str, place: int, character: str) -> str:
    return text[:place] + character + text[place + 1 :]


def test_a_stream_without_a_name_is_never_resumed() -> None:
    signer = StreamSigner(b"secret")
    assert not signer.accepts(KIOSK, UNSIGNED._replace(signature=signer.sign(KIOSK, UNSIGNED)))


SECRETS = ("one secret of a dozen", "another secret of ours")


@pytest.mark.parametrize("has_keys", [True, False])
async def test_servers_of_several_machines_accept_them_by_a_secret_that_is_set(
    opened: Open, tmp_path: Path, key: str, path: Path, has_keys: bool
) -> None:
    """Two machines have the same keys, in files with secrets of their own; or none, and limits for each address."""
    copied = tmp_path / "copy.db"
    shutil.copy(path, copied)
    with closing(sqlite3.connect(copied)) as database, database:
        database.execute("UPDATE secret SET value = randomblob(32)")
    files: list[dict[str, object]] = [{"keys": path}, {"keys": copied}]
    limited: list[dict[str, object]] = [{"anonymous_characters_per_minute": 2 * CHARACTERS}] * 2
    one, other = files if has_keys else limited
    for first, second, is_free in (
        (one, other, False),
        (one | {"stream_secret": SECRETS[0]}, other | {"stream_secret": SECRETS[0]}, True),
        (one | {"stream_secret": SECRETS[0]}, other | {"stream_secret": SECRETS[1]}, False),
        (one, one | {"stream_secret": SECRETS[1]}, False),
    ):
        begun, resumed = await opened(**first), await opened(**second)
        callers = [await each.admit(key if has_keys else None, "192.0.2.1") for each in (begun, resumed)]
        _, signature = await _resume(begun, callers[0], "")
        cost, new = await _resume(resumed, callers[1], signature)
        assert (cost, new == signature) == ((0, True) if is_free else (CHARACTERS, False))
        assert await _resume(resumed, callers[1], new) == (0, new)


async def test_what_resumes_a_stream_counts_for_no_limit_of_characters(opened: Open, path: Path) -> None:
    with closing(KeyStore(path, create=True)) as file:
        key = file.add("kiosk", KeyLimits(characters_per_minute=10, characters_per_month=10, requests_per_minute=4))
    access = await opened(keys=path)
    caller = await access.admit(key, None)
    _, signature = await _resume(access, caller, "")
    for _ in range(3):
        assert await _resume(access, await access.admit(key, None), signature) == (0, signature)
    with pytest.raises(RateLimited, match="too many characters"):
        await _resume(access, caller, "")
    with pytest.raises(RateLimited, match="too many requests"):
        await access.admit(key, None)


async def test_callers_without_a_key_are_counted_where_their_characters_are_limited(
    opened: Open, path: Path, key: str
) -> None:
    keyed, limited, free = await opened(keys=path), await opened(anonymous_characters_per_minute=9), await opened()
    assert (await keyed.admit(key, None)).is_counted
    caller = await limited.admit(None, "192.0.2.1")
    assert caller.is_counted
    assert not (await free.admit(None, "192.0.2.1")).is_counted
    _, signature = await _resume(limited, caller, "")
    assert await _resume(limited, caller, signature) == (0, signature)
    with pytest.raises(RateLimited):
        await _resume(limited, caller, "")
    assert (await _resume(limited, await limited.admit(None, "192.0.2.2"), signature))[0] == CHARACTERS
