"""Long texts let others have their first token first, and are not held up for ever."""

import asyncio

import pytest

from service.translation import fairness
from service.translation.fairness import FirstTokens


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than any test takes."""
    monkeypatch.setattr(fairness, "_LONGEST_SECONDS", 600.0)


async def _turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.usefixtures("patience")
async def test_until_nobody_waits() -> None:
    first_tokens = FirstTokens()
    first_tokens.expect("one")
    first_tokens.expect("other")
    waiting = asyncio.create_task(first_tokens.give_way())
    for who in ("one", "one", "other"):
        await _turns()
        assert not waiting.done()
        first_tokens.has_come(who)
    await waiting


async def test_one_turn_where_nobody_waits() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    for expected in (1, 2, 3):
        await FirstTokens().give_way()
        assert turns == expected
    counting.cancel()


async def test_no_longer_than_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "_LONGEST_SECONDS", 0.0)
    first_tokens = FirstTokens()
    first_tokens.expect("one")
    await first_tokens.give_way()
