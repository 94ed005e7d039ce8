"""One zygote for the tests of a file that do not kill it: each imports PyTorch, which takes a second."""

from collections.abc import AsyncIterator

import pytest_asyncio

from service.supervisor.fork_server import Zygote


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def zygote() -> AsyncIterator[Zygote]:
    """A test that takes it has to run in the module's event loop."""
    shared = Zygote()
    shared.acquire(shared)
    yield shared
    await shared.release(shared)
    assert shared.pid is None
