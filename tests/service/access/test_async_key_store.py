"""The key store while its file cannot be written: which requests are refused, and what is logged."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, aclosing, closing, contextmanager
from pathlib import Path

import pytest

from service.access import async_key_store
from service.access.async_key_store import AsyncKeyStore, this_month
from service.access.control import AccessControl
from service.access.key_store import Key, KeyLimits, KeyStore
from service.errors import DeadlineExceeded, KeysUnavailable
from service.settings import Settings

MONTH = this_month()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock the file, as a process does that has begun to write."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def _key(path: Path) -> tuple[str, Key]:
    with closing(KeyStore(path, create=True)) as file:
        key = file.add("kiosk", KeyLimits(characters_per_month=1000))
        [known] = file.list()
    return key, known


@pytest.fixture
async def opened(path: Path) -> AsyncIterator[tuple[AsyncKeyStore, str, Key]]:
    """Open a store with a key: as the caller sends it, and its record."""
    key, known = _key(path)
    async with aclosing(AsyncKeyStore(path)) as made:
        yield made, key, known


async def test_who_reads_does_not_wait_for_who_cannot_write(
    opened: tuple[AsyncKeyStore, str, Key], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_key_store, "_PATIENCE_SECONDS", 100.0)
    made, key, known = opened
    with locked(path):
        writing = asyncio.create_task(made.count(known, MONTH, 5))
        async with asyncio.timeout(60):
            assert await made.find(key) == known
            assert await made.used(known) == 0
        assert not writing.done()
    assert await writing
    assert await made.used(known) == 5


async def test_a_hundred_wait_no_longer_than_one(
    opened: tuple[AsyncKeyStore, str, Key],
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Waiting one after the other, they would take more than a minute and a half."""
    monkeypatch.setattr(async_key_store, "_PATIENCE_SECONDS", 1.0)
    made, _, known = opened
    with locked(path):
        async with asyncio.timeout(60):
            charges = [made.count(known, MONTH, 1) for _ in range(100)]
            refused = await asyncio.gather(*charges, return_exceptions=True)
    assert [type(each) for each in refused] == [KeysUnavailable] * 100
    assert await made.used(known) == 0
    assert await made.count(known, MONTH, 1)
    assert {(each.message, each.__dict__["reason"]) for each in caplog.records} == {
        ("the key file cannot be used", f"{path}: database is locked")
    }
    assert not any(each.exc_info for each in caplog.records)


async def test_what_cannot_be_given_back_does_not_hide_what_failed(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(async_key_store, "_PATIENCE_SECONDS", 0.1)
    key, _ = _key(path)
    async with aclosing(AccessControl(Settings.model_validate({"keys": path}))) as access:
        caller = await access.admit(key, None)

        async def ends_while_locked() -> None:
            with ExitStack() as stack:
                async with access.charged(caller, 9):
                    stack.enter_context(locked(path))
                    raise DeadlineExceeded("too late")

        with pytest.raises(DeadlineExceeded):
            await ends_while_locked()
        assert await access.characters_used(caller) == 9
    [record] = [each for each in caplog.records if each.message == "characters could not be given back"]
    assert (record.__dict__["key_name"], record.__dict__["characters"]) == ("kiosk", 9)
