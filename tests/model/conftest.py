"""The variants of the C++ operators, one after the other, and what serves without them."""

from collections.abc import Iterator

import pytest

from model import kernels
from model.kernels import library


@pytest.fixture
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    best, *_ = available = library.variants()
    if request.param not in available:
        pytest.skip(f"this processor does not run {request.param}")
    library.choose_variant(request.param)
    yield str(request.param)
    library.choose_variant(best)


@pytest.fixture(params=["operators", "fallback"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with the C++ operators, then with PyTorch's in their place."""
    if request.param == "fallback":
        monkeypatch.setattr(kernels, "load", lambda: False)
    else:
        request.getfixturevalue("operators")
