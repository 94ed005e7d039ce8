"""The characters of a source, counted once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from service.access.charges import Caller
from service.access.control import AccessControl
from service.access.key_store import KeyLimits
from service.errors import QuotaExceeded
from service.live.account import LiveAccount


class Counted:
    """An access control with a quota of 100 characters."""

    total = 0

    @asynccontextmanager
    async def charged(self, caller: Caller, characters: int, field: str) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        if self.total + characters > 100:
            raise QuotaExceeded("the limit is 100 characters a month", 1)
        self.total += characters
        yield


async def test_several_writers_pay_for_each_position_once_and_for_none_that_was_refused() -> None:
    counted = Counted()
    account = LiveAccount(cast(AccessControl, counted), Caller("key:kiosk", KeyLimits()), 10)
    source = 10

    async def append(characters: int) -> None:
        nonlocal source
        async with account.one_change:
            await account.reach(source + characters)
            source += characters

    await asyncio.gather(append(20), append(5), append(15))
    assert (source, counted.total) == (50, 40)
    await account.reach(45)
    with pytest.raises(QuotaExceeded):
        await append(400)
    await append(10)
    assert (source, counted.total) == (60, 50)
