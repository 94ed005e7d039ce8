"""The variants of the C++ operators, one after the other."""

from collections.abc import Iterator

import pytest

from model.kernels import library


@pytest.fixture
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    best, *_ = available = library.variants()
    if request.param not in available:
        pytest.skip(f"this processor does not run {request.param}")
    library.choose_variant(request.param)
    yield str(request.param)
    library.choose_variant(best)
