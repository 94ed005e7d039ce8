from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest

from service.access.control import AccessControl, Refusal
from service.settings import Settings

Open = Callable[..., Awaitable[AccessControl]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.db"


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
