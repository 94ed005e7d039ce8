"""Commands run in the process of the tests, whose limits they must not lower for all tests after them."""

import resource
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _limits() -> Iterator[None]:
    """Restore the limit of memory, which an import lowers for its own process."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    yield
    resource.setrlimit(resource.RLIMIT_DATA, before)
